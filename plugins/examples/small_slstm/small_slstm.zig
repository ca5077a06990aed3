//! small_slstm: a language model of an sLSTM layer (Beck et al. 2024). Its gates read what the layer returned for the token
//! before, which no scan can compute: a loop over the tokens. The exponential gates are kept finite by their running maximum.
const hekla = @import("hekla");
const op = hekla.operations;
const Graph = hekla.Graph;
const Value = hekla.Value;

const SmallSlstm = struct {
    vocabulary: i64,
    width: i64,

    pub fn init(config: hekla.Config) hekla.Error!SmallSlstm {
        return .{ .vocabulary = try config.integer("vocab_size"), .width = try config.integer("hidden_size") };
    }

    pub fn build(self: *const SmallSlstm, g: *const Graph) void {
        const ids = g.input("input_ids");
        const words = g.parameter("words.weight", &.{ self.vocabulary, self.width }, .normal(0.1));
        const x = op.embedding(words, ids, .{});
        const gain = g.parameter("norm.weight", &.{self.width}, .constant(1.0));
        const mixed = self.slstm(g, op.rms_norm(x, .{ .gain = gain, .epsilon = 1e-6 }));
        g.offer("hidden", op.add(x, dense(g, mixed, "out.weight", self.width)));
        g.offer("embedding.weight", words);
    }

    pub fn head(_: *const SmallSlstm, g: *const Graph, id: []const u8) bool {
        if (!@import("std").mem.eql(u8, id, "lm")) return false;
        const hidden = g.ask("hidden");
        g.offer("logits", op.linear(hidden, g.ask("embedding.weight"), .{}));
        return true;
    }

    pub fn write(self: *const SmallSlstm, out: hekla.ConfigWriter) hekla.Error!void {
        try out.string("model_type", "small_slstm");
        try out.integer("vocab_size", self.vocabulary);
        try out.integer("hidden_size", self.width);
    }

    /// x [B, T, W] -> [B, T, W], with four states [B, W] that are passed on from token to token, and from chunk to chunk.
    fn slstm(self: *const SmallSlstm, g: *const Graph, x: Value) Value {
        const width = self.width;
        const from_x = dense(g, x, "input.weight", 4 * width); // one product for all tokens, before the loop
        const recurrent = g.parameter("recurrent.weight", &.{ 4 * width, width }, .normal(0.1));
        const t = op.loop_index(g, x.dim(1), .{});
        const h = self.state(g, t, x.dim(0), "h", 0.0);
        const cell = self.state(g, t, x.dim(0), "cell", 0.0);
        const norm = self.state(g, t, x.dim(0), "norm", 0.0);
        const largest = self.state(g, t, x.dim(0), "largest", -1e4);
        const gates = op.add(op.loop_step(t, from_x, .{}), op.linear(h, recurrent, .{}));
        const input = op.slice(gates, 1, 0, width, .{});
        const forget = op.add(op.log_sigmoid(op.slice(gates, 1, width, width, .{})), largest);
        const fresh = op.tanh(op.slice(gates, 1, 2 * width, width, .{}));
        const output = op.sigmoid(op.slice(gates, 1, 3 * width, width, .{}));
        const next_largest = op.maximum(input, forget);
        const written = op.exp(op.sub(input, next_largest));
        const kept = op.exp(op.sub(forget, next_largest));
        const next_cell = op.add(op.mul(kept, cell), op.mul(written, fresh));
        const next_norm = op.add(op.mul(kept, norm), written);
        const next_h = op.mul(output, op.div(next_cell, next_norm));
        _ = op.state_write(op.loop_next(h, next_h), "h");
        _ = op.state_write(op.loop_next(cell, next_cell), "cell");
        _ = op.state_write(op.loop_next(norm, next_norm), "norm");
        _ = op.state_write(op.loop_next(largest, next_largest), "largest");
        return op.loop_collect(t, next_h, .{});
    }

    fn state(self: *const SmallSlstm, g: *const Graph, t: Value, batch: i64, name: []const u8, initial: f64) Value {
        const kept = op.state_read(g.fill(hekla.abi.HK_KIND_FLOAT, &.{ batch, self.width }, initial), name);
        return op.loop_state(t, kept);
    }

    fn dense(g: *const Graph, x: Value, name: []const u8, out: i64) Value {
        return op.linear(x, g.parameter(name, &.{ out, x.dim(-1) }, .normal(0.1)), .{});
    }
};

comptime {
    hekla.plugin(1, &.{hekla.architecture("small_slstm", SmallSlstm)});
}
