// experts: a language model whose feed-forward layer is a mixture of experts (Shazeer et al. 2017). Each token chooses k of
// them, and only those are computed. Without experts it is one layer of the size that a token would use.
use hekla_plugin::*;

struct Experts {
    vocabulary: i64,
    width: i64,
    experts: i64,
    chosen: i64,
    size: i64,
}

fn dense<'g>(g: &'g Graph, x: Value<'g>, name: &str, out: i64) -> Value<'g> {
    linear(x, g.parameter(&format!("{}.weight", name), &[out, x.dim(-1)], normal(0.1)))
}

// x [B, T, W], moved on by one token; the last one of a chunk is kept for the next chunk.
fn token_before<'g>(g: &'g Graph, x: Value<'g>) -> Value<'g> {
    let (batch, length, width) = (x.dim(0), x.dim(1), x.dim(2));
    let last = state_read(g.fill(&[batch, 1, width], 0.0), "last");
    state_write(slice(x, 1, length - 1, 1), "last");
    slice(concat(&[last, x], 1), 1, 0, length)
}

impl Architecture for Experts {
    fn new(config: &Config) -> Result<Self> {
        let model = Experts {
            vocabulary: config.integer("vocab_size")?,
            width: config.integer("hidden_size")?,
            experts: config.integer("num_experts")?,
            chosen: config.integer("experts_per_token")?,
            size: config.integer("expert_size")?,
        };
        if model.experts > 0 && model.chosen > model.experts {
            return Err(Error::invalid("experts_per_token must not exceed num_experts"));
        }
        Ok(model)
    }

    fn build(&self, g: &Graph) -> Result<()> {
        let ids = g.input("input_ids");
        let words = g.parameter("words.weight", &[self.vocabulary, self.width], normal(0.1));
        let x = embedding(words, ids);
        let seen = x + dense(g, token_before(g, x), "before", self.width);
        let normed = rms_norm_layer(seen, "norm", 1e-6);
        let fed = if self.experts > 0 { self.mixture(g, normed) } else { self.one_layer(g, normed) };
        g.offer("hidden", seen + fed);
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
        out.text("model_type", "experts")?;
        out.integer("vocab_size", self.vocabulary)?;
        out.integer("hidden_size", self.width)?;
        out.integer("num_experts", self.experts)?;
        out.integer("experts_per_token", self.chosen)?;
        out.integer("expert_size", self.size)
    }
}

impl Experts {
    fn one_layer<'g>(&self, g: &'g Graph, x: Value<'g>) -> Value<'g> {
        dense(g, silu(dense(g, x, "up", self.chosen * self.size)), "down", self.width)
    }

    // x [B, T, W] -> [B, T, W]: every token k times, with an expert each, weighed by the scores of the router.
    fn mixture<'g>(&self, g: &'g Graph, x: Value<'g>) -> Value<'g> {
        let (tokens, k) = (x.dim(0) * x.dim(1), self.chosen);
        let flat = reshape(x, &[tokens, 1, self.width]);
        let scores = softmax(reshape(dense(g, flat, "router", self.experts), &[tokens, self.experts]));
        let best = top_k(scores, k);
        let weights = best.values / sum_with(best.values, &[1], SumOptions::new().keep(1));
        let expert = reshape(best.indices, &[tokens * k]);
        let each = reshape(broadcast(flat, &[tokens, k, self.width]), &[tokens * k, self.width]);
        let up = g.parameter("experts.up", &[self.experts, self.size, self.width], normal(0.1));
        let down = g.parameter("experts.down", &[self.experts, self.width, self.size], normal(0.1));
        let y = row_linear(silu(row_linear(each, up, expert)), down, expert);
        let weighed = reshape(y, &[tokens, k, self.width]) * reshape(weights, &[tokens, k, 1]);
        reshape(sum(weighed, &[1]), &[x.dim(0), x.dim(1), self.width])
    }
}

plugin! { architecture "experts": Experts }
