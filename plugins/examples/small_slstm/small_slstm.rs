// small_slstm: a language model of an sLSTM layer (Beck et al. 2024). Its gates read what the layer returned for the token
// before, which no scan can compute: a loop over the tokens. The exponential gates are kept finite by their running maximum.
use hekla_plugin::*;

struct SmallSlstm {
    vocabulary: i64,
    width: i64,
}

fn dense<'g>(g: &'g Graph, x: Value<'g>, name: &str, out: i64) -> Value<'g> {
    linear(x, g.parameter(&format!("{}.weight", name), &[out, x.dim(-1)], normal(0.1)))
}

impl Architecture for SmallSlstm {
    fn new(config: &Config) -> Result<Self> {
        Ok(SmallSlstm {
            vocabulary: config.integer("vocab_size")?,
            width: config.integer("hidden_size")?,
        })
    }

    fn build(&self, g: &Graph) -> Result<()> {
        let ids = g.input("input_ids");
        let words = g.parameter("words.weight", &[self.vocabulary, self.width], normal(0.1));
        let x = embedding(words, ids);
        let mixed = self.slstm(g, rms_norm_layer(x, "norm", 1e-6));
        g.offer("hidden", x + dense(g, mixed, "out", self.width));
        g.offer("embedding.weight", words);
        Ok(())
    }

    fn head(&self, g: &Graph, id: &str) -> Result<bool> {
        if id != "lm" {
            return Ok(false);
        }
        let hidden = g.ask("hidden");
        g.offer("logits", linear(hidden, g.ask("embedding.weight")));
        Ok(true)
    }

    fn write(&self, out: &mut ConfigWriter) -> Result<()> {
        out.text("model_type", "small_slstm")?;
        out.integer("vocab_size", self.vocabulary)?;
        out.integer("hidden_size", self.width)
    }
}

impl SmallSlstm {
    // x [B, T, W] -> [B, T, W], with four states [B, W] that are passed on from token to token, and from chunk to chunk.
    fn slstm<'g>(&self, g: &'g Graph, x: Value<'g>) -> Value<'g> {
        let (batch, length, width) = (x.dim(0), x.dim(1), self.width);
        let from_x = dense(g, x, "input", 4 * width); // one product for all tokens, before the loop
        let recurrent = g.parameter("recurrent.weight", &[4 * width, width], normal(0.1));
        let t = loop_index(g, length);
        let state = |name, initial| loop_state(t, state_read(g.fill(&[batch, width], initial), name));
        let h = state("h", 0.0);
        let cell = state("cell", 0.0);
        let norm = state("norm", 0.0);
        let largest = state("largest", -1e4);
        let gates = loop_step(t, from_x) + linear(h, recurrent);
        let input = slice(gates, 1, 0, width);
        let forget = log_sigmoid(slice(gates, 1, width, width)) + largest;
        let fresh = tanh(slice(gates, 1, 2 * width, width));
        let output = sigmoid(slice(gates, 1, 3 * width, width));
        let next_largest = maximum(input, forget);
        let write = exp(input - next_largest);
        let keep = exp(forget - next_largest);
        let next_cell = keep * cell + write * fresh;
        let next_norm = keep * norm + write;
        let next_h = output * (next_cell / next_norm);
        state_write(loop_next(h, next_h), "h");
        state_write(loop_next(cell, next_cell), "cell");
        state_write(loop_next(norm, next_norm), "norm");
        state_write(loop_next(largest, next_largest), "largest");
        loop_collect(t, next_h)
    }
}

plugin! { architecture "small_slstm": SmallSlstm }
