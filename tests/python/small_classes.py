"""transformers classes at sizes at which a step is fast: language models of its auto classes whose operations can be
exported.
"""

# Names of sizes in configurations; each class gets those that its configuration has.
SIZES = dict(
    vocab_size=40, hidden_size=32, d_model=32, n_embd=32, dim=32, d_kv=8, intermediate_size=48, d_ff=48, ffn_dim=48, n_inner=48,
    hidden_dim=48, ffn_hidden_size=48, encoder_ffn_dim=48, decoder_ffn_dim=48, embedding_size=32, word_embed_proj_dim=32,
    num_hidden_layers=2, n_layer=2, n_layers=2, num_layers=2, encoder_layers=2, decoder_layers=2, num_decoder_layers=2,
    num_attention_heads=4, n_head=4, n_heads=4, num_heads=4, encoder_attention_heads=4, decoder_attention_heads=4,
    num_key_value_heads=2, num_kv_heads=2, head_dim=8, attention_head_size=8,
    num_experts=4, num_local_experts=4, n_routed_experts=4, moe_num_experts=4, num_experts_per_tok=2, moe_topk=2, moe_k=2,
    moe_intermediate_size=16, shared_expert_intermediate_size=16, n_shared_experts=1, moe_num_shared_experts=1, num_shared_experts=1,
    n_group=2, topk_group=1, first_k_dense_replace=1,
    q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, qk_head_dim=16,
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
    max_position_embeddings=40, n_positions=40, n_ctx=40, type_vocab_size=2, sliding_window=4, attention_window=4,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=0,
)  # fmt: skip
LATENT = dict(num_key_value_heads=4, head_dim=None, qk_head_dim=None)
# Additional arguments by class; None: the configuration's default.
OWN = {
    "AXK1ForCausalLM": LATENT,
    "AXK2ForCausalLM": LATENT,
    "CodeGenForCausalLM": dict(rotary_dim=8),
    "DeepseekV32ForCausalLM": LATENT,
    "DeepseekV3ForCausalLM": LATENT,
    "Dots3NoteForCausalLM": dict(num_key_value_heads=4),
    "EsmForMaskedLM": dict(vocab_size=40),
    "EsmcForMaskedLM": dict(num_key_value_heads=4),
    "FalconH1ForCausalLM": dict(mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_chunk_size=4),
    "GPTJForCausalLM": dict(rotary_dim=8),
    "Glm4MoeLiteForCausalLM": LATENT,
    "GlmMoeDsaForCausalLM": LATENT,
    "HunYuanDenseV1ForCausalLM": dict(head_dim=8),
    "MiniCPM3ForCausalLM": LATENT,
    "MinistralForCausalLM": dict(head_dim=8),
    "Mistral4ForCausalLM": LATENT,
    "NemotronForCausalLM": dict(num_key_value_heads=2),
    "NemotronHForCausalLM": dict(mamba_num_heads=4, n_groups=2, mamba_head_dim=8, ssm_state_size=8, chunk_size=4),
    "YoutuForCausalLM": LATENT,
    "ZayaForCausalLM": dict(num_experts_per_tok=1),
}
NAMES = """
AXK1ForCausalLM AXK2ForCausalLM AfmoeForCausalLM AlbertForMaskedLM ApertusForCausalLM ArceeForCausalLM AriaTextForCausalLM BartForCausalLM
BartForConditionalGeneration BeamForCausalLM BertForMaskedLM BertGenerationDecoder BertLMHeadModel BigBirdForCausalLM BigBirdForMaskedLM
BigBirdPegasusForCausalLM BigBirdPegasusForConditionalGeneration BioGptForCausalLM BitNetForCausalLM BlenderbotForCausalLM
BlenderbotForConditionalGeneration BlenderbotSmallForCausalLM BlenderbotSmallForConditionalGeneration BloomForCausalLM CTRLLMHeadModel
CamembertForCausalLM CamembertForMaskedLM CodeGenForCausalLM Cohere2ForCausalLM Cohere2MoeForCausalLM CohereForCausalLM
ConvBertForMaskedLM CpmAntForCausalLM CwmForCausalLM Data2VecTextForCausalLM Data2VecTextForMaskedLM DebertaForMaskedLM
DebertaV2ForMaskedLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM DeepseekV4ForCausalLM DiffLlamaForCausalLM DistilBertForMaskedLM
DogeForCausalLM Dots3NoteForCausalLM ElectraForCausalLM ElectraForMaskedLM Emu3ForCausalLM Ernie4_5ForCausalLM Ernie4_5_MoeForCausalLM
ErnieForCausalLM ErnieForMaskedLM EsmForMaskedLM EsmcForMaskedLM EuroBertForMaskedLM Exaone4ForCausalLM ExaoneMoeForCausalLM
FNetForMaskedLM FalconForCausalLM FalconH1ForCausalLM FalconMambaForCausalLM FlexOlmoForCausalLM FlintForCausalLM FunnelForMaskedLM
GPT2LMHeadModel GPTBigCodeForCausalLM GPTJForCausalLM GPTNeoXForCausalLM GPTNeoXJapaneseForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM
Gemma4UnifiedForCausalLM GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM GlmForCausalLM GlmMoeDsaForCausalLM
GptOssForCausalLM GraniteForCausalLM GraniteMoeForCausalLM GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM GraniteSWAForCausalLM
GteForMaskedLM HYV3ForCausalLM HYV4ForCausalLM HeliumForCausalLM HrmTextForCausalLM HunYuanDenseV1ForCausalLM
HyperCLOVAXForCausalLM Inkling2ForCausalLM InklingForCausalLM Jais2ForCausalLM JambaForCausalLM JinaEmbeddingsV3ForMaskedLM
Kolibri1ForCausalLM LagunaForCausalLM LayoutLMForMaskedLM Lfm2ForCausalLM Lfm3ForCausalLM Llama4ForCausalLM LlamaForCausalLM
LongT5ForConditionalGeneration M2M100ForConditionalGeneration MBartForCausalLM MBartForConditionalGeneration MPNetForMaskedLM
MT5ForConditionalGeneration MambaForCausalLM MarianForCausalLM MarianMTModel MegatronBertForCausalLM MegatronBertForMaskedLM
MellumForCausalLM MiMoV2FlashForCausalLM MiniCPM3ForCausalLM MiniMaxForCausalLM MiniMaxM2ForCausalLM MiniMaxM3VLForCausalLM
Ministral3ForCausalLM MinistralForCausalLM Mistral4ForCausalLM MistralForCausalLM MixtralForCausalLM MllamaForCausalLM
MobileBertForMaskedLM ModernBertDecoderForCausalLM ModernBertForMaskedLM MoshiForCausalLM MptForCausalLM MraForMaskedLM MvpForCausalLM
MvpForConditionalGeneration NanoChatForCausalLM NemotronForCausalLM NemotronHForCausalLM NllbMoeForConditionalGeneration
NomicBertForMaskedLM NystromformerForMaskedLM OPTForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM OlmoForCausalLM OlmoHybridForCausalLM
OlmoeForCausalLM OpenAIGPTLMHeadModel PLBartForCausalLM PLBartForConditionalGeneration PegasusForCausalLM PegasusForConditionalGeneration
PegasusXForConditionalGeneration PersimmonForCausalLM Phi3ForCausalLM PhiForCausalLM PhimoeForCausalLM Pop2PianoForConditionalGeneration
ProphetNetForCausalLM ProphetNetForConditionalGeneration Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM
Qwen3NextForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM Qwen4ExpForCausalLM RecurrentGemmaForCausalLM RemBertForCausalLM
RemBertForMaskedLM RoFormerForCausalLM RoFormerForMaskedLM RobertaForCausalLM RobertaForMaskedLM RobertaPreLayerNormForCausalLM
RobertaPreLayerNormForMaskedLM RwkvForCausalLM SeamlessM4TForTextToText SeamlessM4Tv2ForTextToText SeedOssForCausalLM SmolLM3ForCausalLM
SolarOpenForCausalLM SqueezeBertForMaskedLM StableLmForCausalLM Starcoder2ForCausalLM SwitchTransformersForConditionalGeneration
T5ForConditionalGeneration TapasForMaskedLM TrOCRForCausalLM UMT5ForConditionalGeneration UltrabertForMaskedLM VaultGemmaForCausalLM
WhisperForCausalLM XGLMForCausalLM XLMRobertaForCausalLM XLMRobertaForMaskedLM XLMRobertaXLForCausalLM XLMRobertaXLForMaskedLM
YosoForMaskedLM YoutuForCausalLM ZayaForCausalLM xLSTMForCausalLM
""".split()


def kwargs_of(name):
    """Arguments of the configuration of a class."""
    import transformers

    written = getattr(transformers, name).config_class().to_dict()
    made = {k: v for k, v in SIZES.items() if k == "pad_token_id" or isinstance(written.get(k), int | float)}
    made |= {k: 0.0 for k, v in written.items() if isinstance(v, float) and "drop" in k}
    return {
        k: v
        for k, v in (made | OWN.get(name, {})).items()
        if v is not None and (k in written or k in OWN.get(name, {}))
    }
