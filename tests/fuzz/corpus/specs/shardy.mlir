module {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func private @parameters(
    tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>, tpplan.path = "scale"},
    tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}, {}]>, tpplan.path = "layers.0.a.weight"},
    tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp", "tp"}, {}]>, tpplan.path = "layers.1.a.weight"},
    tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>, tpplan.path = "b.weight"})
}
