"""Models of Keras on the torch backend, trained on ranks and in one process: what test_keras_train.py runs on each rank."""

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


CUT = {transformer: 12, convolutions: 5, embeddings: 4}  # variables that the layouts cut


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
    """The losses of 20 steps, then of an evaluation, and some predictions."""
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=LOSS, metrics=["accuracy"], **options)
    found = [model.train_on_batch(x, y) for x, y in batches(make)]
    x, y = next(batches(make))
    return found + [model.test_on_batch(x, y)], model.predict(x, verbose=0)


def distribution_of(make, shape):
    """The user's own LayoutMap, without a manifest; DataParallel without a shape."""
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
    """What run(model) gives of a model in one process, and of one that is made under a distribution; the variables of both."""
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
    """A loop of the user's own: nothing in it knows of DTensors."""
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
    """A model that is saved while it is spread goes on training: spread, in one process, and spread after it was loaded."""
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
    """fit with an epoch's validation and a batch at its end that does not divide."""
    make = globals()[name]
    data = list(batches(make, 3))
    x, y = np.concatenate([x for x, _ in data])[:21], np.concatenate([y for _, y in data])[:21]

    def run(model):
        model.compile(optimizer="adamw", loss=LOSS, metrics=["accuracy"])
        history = model.fit(x, y, batch_size=8, epochs=2, validation_split=0.25, shuffle=False, verbose=0).history
        return [history[key] for key in sorted(history)], model.evaluate(x, y, batch_size=8, verbose=0)

    expected, found = alone_and_spread(make, shape, run)
    alike(expected[0], found[0])
    alike(expected[1], found[1])
