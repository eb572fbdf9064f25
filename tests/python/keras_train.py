"""Keras models on the torch backend, trained on ranks and in one process: functions that test_keras_train.py runs on
each rank.
"""

import keras
import numpy as np
import torch
from keras import layers, ops
from keras.distribution import DeviceMesh, LayoutMap, ModelParallel

from tpplan import keras_torch


def transformer():
    tokens = keras.Input((6,), dtype="int32")
    x = layers.Embedding(16, 8, name="embed")(tokens)
    y = layers.LayerNormalization(name="norm")(x)
    x = layers.Add()([x, layers.MultiHeadAttention(4, 2, name="attention")(y, y, use_causal_mask=True)])
    y = layers.Dense(16, activation="gelu", name="up")(layers.LayerNormalization(name="norm_2")(x))
    x = layers.Add()([x, layers.Dense(8, name="down")(y)])
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, layers.Dense(4, name="head")(x), name="transformer")


def convolutions():
    return keras.Sequential(
        [
            keras.Input((8, 8, 4)),
            layers.Conv2D(8, 3, padding="same", use_bias=False, name="conv"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(8, 3, strides=2, name="strided"),
            layers.Flatten(),
            layers.Dense(4, name="head"),
        ],
        name="convolutions",
    )


@keras.saving.register_keras_serializable("tpplan")
class Embeddings(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.users = layers.Embedding(16, 8, name="users")
        self.items = layers.Embedding(16, 8, name="items")
        self.up = layers.Dense(16, activation="relu", name="up")
        self.head = layers.Dense(4, name="head")

    def call(self, tokens):
        user, item = self.users(tokens[:, 0]), self.items(tokens[:, 1:])
        product = ops.sum(user[:, None] * item, axis=-1)
        return self.head(self.up(ops.concatenate([user, ops.mean(item, axis=1), product], axis=-1)))


def embeddings():
    model = Embeddings(name="embeddings")
    model(np.zeros((2, 6), "int32"))
    return model


LAYOUTS = {
    transformer: {
        "embed/embeddings": ("model", None),
        ".*attention/(query|key|value)/kernel": (None, "model", None),
        ".*attention/(query|key|value)/bias": ("model", None),
        ".*attention_output/kernel": ("model", None, None),
        "up/kernel": (None, "model"),
        "up/bias": ("model",),
        "down.kernel": ("model", None),
        "head/kernel": (None, "model"),
    },
    convolutions: {
        ".*/conv/kernel": (None, None, None, "model"),
        ".*/norm/gamma": ("model",),
        ".*/strided/kernel": (None, None, "model", None),
        ".*/head/.*": ("model",),
    },
    embeddings: {
        ".*users/embeddings": (None, "model"),
        ".*items/embeddings": ("model", None),
        ".*up/kernel": (None, "model"),
        ".*head/kernel": ("model", None),
    },
}


CUT = {transformer: 12, convolutions: 5, embeddings: 4}  # number of variables that the layouts shard


def batches(make, count=20, size=8):
    chance = np.random.default_rng(0)
    for _ in range(count):
        x = chance.normal(size=(size, 8, 8, 4)) if make is convolutions else chance.integers(0, 16, (size, 6))
        yield x, chance.integers(0, 4, size)


def start_values(model):
    chance = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(chance.normal(0, 0.3, variable.shape))


LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def losses_of(model, make, **options):
    """Returns the losses of 20 steps and of an evaluation, and some predictions."""
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=LOSS, metrics=["accuracy"], **options)
    found = [model.train_on_batch(x, y) for x, y in batches(make)]
    x, y = next(batches(make))
    return found + [model.test_on_batch(x, y)], model.predict(x, verbose=0)


def distribution_of(make, shape):
    """Returns a distribution with the user's own LayoutMap, without a manifest; DataParallel if there is no shape."""
    if shape is None:
        return keras.distribution.DataParallel()
    mesh = DeviceMesh(shape, ["batch", "model"], keras.distribution.list_devices())
    found = LayoutMap(mesh)
    for key, axes in LAYOUTS[make].items():
        found[key] = axes
    return ModelParallel(layout_map=found, batch_dim_name="batch")


def alike(one, other, bound=1e-5):
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape and np.allclose(one, other, rtol=0, atol=bound), np.abs(one - other).max()


def count_cut(owner):
    spread = [v for v in owner.variables if keras_torch.is_spread(v)]
    return sum(v.value.to_local().shape != v.shape for v in spread)


def alone_and_spread(make, shape, run):
    """Returns run(model) of a model in one process and of one created under a distribution, and the variables of
    both.
    """
    keras_torch.install()
    found = []
    for distribution in (None, distribution_of(make, shape)):
        keras.utils.clear_session()
        keras.distribution.set_distribution(distribution)
        try:
            model = make()
            start_values(model)
            result = run(model)
            if distribution is not None:
                assert count_cut(model) == (CUT[make] if shape is not None and shape[1] > 1 else 0)
            found.append((result, [np.array(v) for v in model.variables]))
        finally:
            keras.distribution.set_distribution(None)
    (one, values), (other, spread) = found
    for value, same in zip(values, spread):
        alike(value, same, 1e-4)
    return one, other


def trains(rank, name, shape):
    make = globals()[name]
    expected, found = alone_and_spread(make, shape, lambda model: losses_of(model, make))
    alike(expected[0], found[0])
    alike(expected[1], found[1], 1e-4)


def loop(rank, name, shape):
    """A training loop of the user, without any DTensor code."""
    make = globals()[name]

    def run(model):
        optimizer, metric, found = keras.optimizers.Adam(0.01), keras.metrics.SparseCategoricalAccuracy(), []
        for variable in model.trainable_variables:
            if variable.path.endswith("kernel"):
                variable.regularizer = keras.regularizers.L2(0.01)
        for x, y in batches(make):
            predicted = model(x, training=True)
            loss = torch.nn.functional.cross_entropy(predicted, torch.tensor(y)) + sum(model.losses)
            alike(loss.detach(), (LOSS(y, predicted) + sum(model.losses)).detach())
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                optimizer.apply([v.value.grad for v in model.trainable_weights], model.trainable_weights)
            metric.update_state(y, predicted)
            found.append(float(loss.detach()))
        return found, float(metric.result())

    expected, found = alone_and_spread(make, shape, run)
    alike(expected[0], found[0])
    assert expected[1] == found[1]


def saves(rank, folder, name, shape):
    """A model that is saved while sharded continues training: sharded, in one process, and sharded after loading."""
    make = globals()[name]
    file = f"{folder}/{name}.keras"
    keras_torch.install()
    data = list(batches(make))
    distribution = distribution_of(make, shape)
    keras.utils.clear_session()
    with distribution.scope():
        model = make()
        start_values(model)
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss=LOSS)
        for x, y in data[:5]:
            model.train_on_batch(x, y)
        model.save(file)
        model.save_weights(f"{folder}/{name}.weights.h5")
        expected = [model.train_on_batch(x, y) for x, y in data[5:10]]
        keras.utils.clear_session()
        keras.distribution.set_distribution(distribution)
        loaded = keras.saving.load_model(file)
        assert count_cut(loaded) == CUT[make] and count_cut(loaded.optimizer) == 2 * CUT[make]
        alike(expected, [loaded.train_on_batch(x, y) for x, y in data[5:10]])
        keras.utils.clear_session()
        keras.distribution.set_distribution(distribution)
        fresh = make()
        fresh.load_weights(f"{folder}/{name}.weights.h5")
    keras.utils.clear_session()
    keras.distribution.set_distribution(None)
    alone = keras.saving.load_model(file)
    for variable, same in zip(alone.trainable_variables, fresh.trainable_variables):
        alike(variable, same)
    alike(expected, [alone.train_on_batch(x, y) for x, y in data[5:10]])
    again = keras.saving.load_model(file)
    keras_torch.spread_variables(again, distribution)
    assert count_cut(again) == CUT[make] and count_cut(again.optimizer) == 2 * CUT[make]
    with distribution.scope():
        alike(expected, [again.train_on_batch(x, y) for x, y in data[5:10]])


def fits(rank, name, shape):
    """fit with validation and a last batch that does not divide, without compiled steps."""
    make = globals()[name]
    data = list(batches(make, 3))
    x, y = np.concatenate([x for x, _ in data])[:21], np.concatenate([y for _, y in data])[:21]

    def run(model):
        is_spread = keras.distribution.distribution() is not None
        model.compile(optimizer="adamw", loss=LOSS, metrics=["accuracy"], jit_compile=is_spread)
        history = model.fit(x, y, batch_size=8, epochs=2, validation_split=0.25, shuffle=False, verbose=0).history
        return [history[key] for key in sorted(history)], model.evaluate(x, y, batch_size=8, verbose=0)

    expected, found = alone_and_spread(make, shape, run)
    alike(expected[0], found[0])
    alike(expected[1], found[1])


def _self(layer):
    return lambda x: layer(x, x)


ROW, SEQUENCE, IMAGE, VOLUME, TOKENS = (8,), (6, 8), (8, 8, 4), (4, 4, 4, 4), (6,)

# The layers listed in tools/python/README.md: constructor, and shape of the input.
LAYERS = {
    "Dense": (lambda: layers.Dense(8), ROW),
    "EinsumDense": (lambda: layers.EinsumDense("abc,cd->abd", (6, 8), bias_axes="d"), SEQUENCE),
    "Embedding": (lambda: layers.Embedding(16, 8), TOKENS),
    "Conv1D": (lambda: layers.Conv1D(8, 3, padding="same"), SEQUENCE),
    "Conv1D causal": (lambda: layers.Conv1D(8, 3, padding="causal", dilation_rate=2), SEQUENCE),
    "Conv2D": (lambda: layers.Conv2D(8, 3, strides=2), IMAGE),
    "Conv2D grouped": (lambda: layers.Conv2D(8, 3, groups=2), IMAGE),
    "Conv3D": (lambda: layers.Conv3D(8, 2), VOLUME),
    "Conv1DTranspose": (lambda: layers.Conv1DTranspose(8, 3, strides=2), SEQUENCE),
    "Conv2DTranspose": (lambda: layers.Conv2DTranspose(8, 3, strides=2, padding="same"), IMAGE),
    "Conv3DTranspose": (lambda: layers.Conv3DTranspose(8, 2), VOLUME),
    "DepthwiseConv1D": (lambda: layers.DepthwiseConv1D(3), SEQUENCE),
    "DepthwiseConv2D": (lambda: layers.DepthwiseConv2D(3), IMAGE),
    "SeparableConv1D": (lambda: layers.SeparableConv1D(8, 3), SEQUENCE),
    "SeparableConv2D": (lambda: layers.SeparableConv2D(8, 3), IMAGE),
    "MaxPooling1D": (lambda: layers.MaxPooling1D(), SEQUENCE),
    "MaxPooling2D": (lambda: layers.MaxPooling2D(padding="same"), IMAGE),
    "MaxPooling3D": (lambda: layers.MaxPooling3D(), VOLUME),
    "AveragePooling1D": (lambda: layers.AveragePooling1D(2), SEQUENCE),
    "AveragePooling2D": (lambda: layers.AveragePooling2D(2, padding="same"), IMAGE),
    "AveragePooling3D": (lambda: layers.AveragePooling3D(2), VOLUME),
    "GlobalMaxPooling1D": (lambda: layers.GlobalMaxPooling1D(), SEQUENCE),
    "GlobalMaxPooling2D": (lambda: layers.GlobalMaxPooling2D(), IMAGE),
    "GlobalAveragePooling1D": (lambda: layers.GlobalAveragePooling1D(), SEQUENCE),
    "GlobalAveragePooling2D": (lambda: layers.GlobalAveragePooling2D(), IMAGE),
    "GlobalAveragePooling3D": (lambda: layers.GlobalAveragePooling3D(), VOLUME),
    "AdaptiveAveragePooling2D": (lambda: layers.AdaptiveAveragePooling2D(2), IMAGE),
    "UpSampling1D": (lambda: layers.UpSampling1D(), SEQUENCE),
    "UpSampling2D": (lambda: layers.UpSampling2D(interpolation="bilinear"), IMAGE),
    "ZeroPadding1D": (lambda: layers.ZeroPadding1D(), SEQUENCE),
    "ZeroPadding2D": (lambda: layers.ZeroPadding2D(), IMAGE),
    "Cropping1D": (lambda: layers.Cropping1D(), SEQUENCE),
    "Cropping2D": (lambda: layers.Cropping2D(), IMAGE),
    "Resizing": (lambda: layers.Resizing(4, 4), IMAGE),
    "Rescaling": (lambda: layers.Rescaling(0.5, 1.0), IMAGE),
    "BatchNormalization": (lambda: layers.BatchNormalization(), IMAGE),
    "LayerNormalization": (lambda: layers.LayerNormalization(), SEQUENCE),
    "RMSNormalization": (lambda: layers.RMSNormalization(), SEQUENCE),
    "GroupNormalization": (lambda: layers.GroupNormalization(2), IMAGE),
    "UnitNormalization": (lambda: layers.UnitNormalization(), SEQUENCE),
    "SpectralNormalization": (lambda: layers.SpectralNormalization(layers.Dense(8)), ROW),
    "MultiHeadAttention": (lambda: _self(layers.MultiHeadAttention(4, 2)), SEQUENCE),
    "GroupQueryAttention": (lambda: _self(layers.GroupQueryAttention(2, 4, 2)), SEQUENCE),
    "Attention": (lambda: lambda x, a=layers.Attention(use_scale=True): a([x, x]), SEQUENCE),
    "AdditiveAttention": (lambda: lambda x, a=layers.AdditiveAttention(): a([x, x]), SEQUENCE),
    "SimpleRNN": (lambda: layers.SimpleRNN(8), SEQUENCE),
    "GRU": (lambda: layers.GRU(8), SEQUENCE),
    "Bidirectional": (lambda: layers.Bidirectional(layers.LSTM(4)), SEQUENCE),
    "LSTM": (lambda: layers.LSTM(8, return_sequences=True), SEQUENCE),
    "TimeDistributed": (lambda: layers.TimeDistributed(layers.Dense(8)), SEQUENCE),
    "ReLU": (lambda: layers.ReLU(), ROW),
    "LeakyReLU": (lambda: layers.LeakyReLU(), ROW),
    "PReLU": (lambda: layers.PReLU(), ROW),
    "ELU": (lambda: layers.ELU(), ROW),
    "Softmax": (lambda: layers.Softmax(), ROW),
    "gelu": (lambda: layers.Activation("gelu"), ROW),
    "silu": (lambda: layers.Activation("silu"), ROW),
    "selu": (lambda: layers.Activation("selu"), ROW),
    "softplus": (lambda: layers.Activation("softplus"), ROW),
    "mish": (lambda: layers.Activation("mish"), ROW),
    "Reshape": (lambda: layers.Reshape((4, 12)), SEQUENCE),
    "Permute": (lambda: layers.Permute((2, 1)), SEQUENCE),
    "Flatten": (lambda: layers.Flatten(), SEQUENCE),
    "RepeatVector": (lambda: layers.RepeatVector(3), ROW),
    "Masking": (lambda: layers.Masking(), SEQUENCE),
    "Add": (lambda: _self(lambda x, y: layers.Add()([x, y])), ROW),
    "Multiply": (lambda: _self(lambda x, y: layers.Multiply()([x, y])), ROW),
    "Maximum": (lambda: _self(lambda x, y: layers.Maximum()([x, y])), ROW),
    "Average": (lambda: _self(lambda x, y: layers.Average()([x, y])), ROW),
    "Concatenate": (lambda: _self(lambda x, y: layers.Concatenate()([x, y])), ROW),
    "Dot": (lambda: _self(lambda x, y: layers.Dot(2)([x, y])), SEQUENCE),
    "Lambda": (lambda: layers.Lambda(lambda x: ops.cumsum(x, axis=1)), SEQUENCE),
    "ActivityRegularization": (lambda: layers.ActivityRegularization(0.01), ROW),
    "Discretization": (lambda: layers.Discretization([-1.0, 0.0, 1.0], output_mode="one_hot"), SEQUENCE),
    "CategoryEncoding": (lambda: layers.CategoryEncoding(16, "multi_hot"), TOKENS),
}


def one_layer(name):
    """Adds a dense layer before and after it, so that gradients go through it, and its input may be sharded."""
    make, shape = LAYERS[name]
    x = start = keras.Input(shape, dtype="int32" if shape == TOKENS else "float32")
    if shape != TOKENS and name != "Discretization":
        x = layers.Dense(shape[-1], name="before")(x)
    x = make()(x)
    return keras.Model(start, layers.Dense(4, name="behind")(layers.Flatten()(x)))


def data_of(shape):
    chance = np.random.default_rng(0)
    whole = (4, *shape)
    return [
        (
            chance.integers(0, 16, whole) if shape == TOKENS else chance.normal(size=whole).astype("float32"),
            chance.integers(0, 4, 4),
        )
        for _ in range(2)
    ]


def steps_of(name, mesh=None, sizes=()):
    """Returns losses and predictions of a layer's model, and the shapes of its variables. With a mesh, each variable is
    sharded in its last divisible dim.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    keras.distribution.set_distribution(None)
    if mesh is not None:
        layouts = LayoutMap(mesh)
        for path, size in sizes.items():
            dim = max((i for i, n in enumerate(size) if n % 2 == 0), default=None)
            if dim is not None:
                layouts[path] = (*[None] * dim, "model", *[None] * (len(size) - dim - 1))
        keras.distribution.set_distribution(ModelParallel(layout_map=layouts, batch_dim_name="batch"))
    try:
        model = one_layer(name)
        start_values(model)
        model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=LOSS)
        data = data_of(LAYERS[name][1])
        found = [model.train_on_batch(x, y) for x, y in data] + [model.predict(data[0][0], verbose=0)]
        return found, {v.path: v.shape for v in model.trainable_variables}
    finally:
        keras.distribution.set_distribution(None)


def layers_train(rank, names, shape):
    """Trains two steps with each of these layers, or with all if there are no names, and predicts."""
    keras_torch.install()
    mesh, failed = DeviceMesh(shape, ["batch", "model"], keras.distribution.list_devices()), []
    for name in names or LAYERS:
        try:
            expected, sizes = steps_of(name)
            found, _ = steps_of(name, mesh, sizes)
            alike(expected[:2], found[:2])
            alike(expected[2], found[2], 1e-4)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {str(error)[:500]}")
            print(rank, failed[-1], flush=True)
    assert not failed, "\n".join(failed)
