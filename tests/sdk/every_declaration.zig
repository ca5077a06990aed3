//! Compiles everything that the layer for Zig declares, also what no plugin here uses.
const hekla = @import("hekla");
const refAllDecls = @import("std").testing.refAllDecls;

test {
    refAllDecls(hekla);
    refAllDecls(hekla.abi);
    refAllDecls(hekla.operations);
    refAllDecls(hekla.Graph);
    refAllDecls(hekla.Value);
    refAllDecls(hekla.Config);
    refAllDecls(hekla.ConfigWriter);
    refAllDecls(hekla.Initial);
}
