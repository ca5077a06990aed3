// small_scan: a language model of a selective scan (Gu and Dao 2023). Each channel has states that decay, and the token
// chooses how fast, what it writes and what it reads. A row at once and token by token give the same.
use hekla_plugin::*;

struct SmallScan {
    vocabulary: i64,
    width: i64,
    states: i64,
}

fn dense<'g>(g: &'g Graph, x: Value<'g>, name: &str, out: i64) -> Value<'g> {
    linear(x, g.parameter(&format!("{}.weight", name), &[out, x.dim(-1)], normal(0.1)))
}

impl Architecture for SmallScan {
    fn new(config: &Config) -> Result<Self> {
        Ok(SmallScan {
            vocabulary: config.integer("vocab_size")?,
            width: config.integer("hidden_size")?,
            states: config.integer("state_size")?,
        })
    }

    fn build(&self, g: &Graph) -> Result<()> {
        let ids = g.input("input_ids");
        let words = g.parameter("words.weight", &[self.vocabulary, self.width], normal(0.1));
        let x = embedding(words, ids);
        let mixed = self.scan(g, rms_norm_layer(x, "norm", 1e-6));
        let gate = silu(dense(g, x, "gate", self.width));
        g.offer("hidden", x + dense(g, mixed * gate, "out", self.width));
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
        out.text("model_type", "small_scan")?;
        out.integer("vocab_size", self.vocabulary)?;
        out.integer("hidden_size", self.width)?;
        out.integer("state_size", self.states)
    }
}

impl SmallScan {
    // x [B, T, W] -> [B, T, W], through states [B, W, N] that are passed on from chunk to chunk.
    fn scan<'g>(&self, g: &'g Graph, x: Value<'g>) -> Value<'g> {
        let (batch, length) = (x.dim(0), x.dim(1));
        let (channels, states) = ([batch, length, self.width, 1], [batch, length, 1, self.states]);
        let kept = [batch, self.width, self.states];
        let step = softplus(dense(g, x, "step", self.width));
        let write = reshape(dense(g, x, "write", self.states), &states);
        let read = reshape(dense(g, x, "read", self.states), &states);
        let rate = exp(g.parameter("rate", &[self.width, self.states], normal(0.5)));
        let decay = exp(-(reshape(step, &channels) * rate));
        let written = reshape(step * x, &channels) * write;
        let before = state_read(g.fill(&kept, 0.0), "state");
        let h = scan_linear_with(written, decay, 1, ScanLinearOptions::new().initial(before));
        state_write(reshape(slice(h, 1, length - 1, 1), &kept), "state");
        sum(h * read, &[3])
    }
}

plugin! { architecture "small_scan": SmallScan }
