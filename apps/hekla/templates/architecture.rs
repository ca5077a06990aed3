// %NAME%: a causal language model without attention. Each block mixes a token with the few before it by a convolution of
// its own weights a channel, gated by the token itself, and then thinks about it alone. Change what you like: everything
// is composed of the operations of operations.rs, and gradients, kernels and memory are the engine's.
use hekla_plugin::*;

// config.json's keys. Defaults and documentation are in manifest.json, and only there.
struct %CLASS% {
    vocabulary: i64,
    width: i64,
    layers: i64,
    kernel: i64,
    dropout: f64,
}

impl Architecture for %CLASS% {
    fn new(config: &Config) -> Result<Self> {
        let made = %CLASS% {
            vocabulary: config.integer("vocab_size")?,
            width: config.integer("hidden_size")?,
            layers: config.integer("num_hidden_layers")?,
            kernel: config.integer("kernel_size")?,
            dropout: config.real("dropout")?,
        };
        if made.width < 1 || made.kernel < 2 {
            return Err(Error::invalid("hidden_size must be positive and kernel_size 2 or more"));
        }
        Ok(made)
    }

    // The body: from token ids [B, T] to hidden states [B, T, width], which heads ask for by the port's name.
    fn build(&self, g: &Graph) -> Result<()> {
        let ids = g.input("input_ids");
        let mut x = embedding(self.words(g), ids);
        let mut real = None; // 1 where there is a token, 0 where there is padding
        if g.mode() != Mode::Decode && g.has_field("attention_mask") {
            real = Some(reshape(to_float(g.input("attention_mask")), &[ids.dim(0), ids.dim(1), 1]));
        }
        for layer in 0..self.layers {
            let _scope = g.scope(&format!("block.{}", layer)); // errors and pictures name it
            x = self.block(g, x, real, layer);
        }
        g.offer("hidden", rms_norm_layer(x, "norm", 1e-6));
        g.offer("embedding.weight", self.words(g)); // so that heads for any body can say tokens
        Ok(())
    }

    // Heads of its own; false leaves an id to the heads of other plugins.
    fn head(&self, g: &Graph, id: &str) -> Result<bool> {
        if id != "lm" {
            return Ok(false);
        }
        g.offer("logits", linear(g.ask("hidden"), self.words(g))); // tied: the embedding is the decoder
        Ok(true)
    }

    fn write(&self, out: &mut ConfigWriter) -> Result<()> {
        out.text("model_type", "%NAME%")?;
        out.integer("vocab_size", self.vocabulary)?;
        out.integer("hidden_size", self.width)?;
        out.integer("num_hidden_layers", self.layers)?;
        out.integer("kernel_size", self.kernel)?;
        out.real("dropout", self.dropout)
    }
}

impl %CLASS% {
    // The same name is the same parameter, in every call.
    fn words<'g>(&self, g: &'g Graph) -> Value<'g> {
        g.parameter("words.weight", &[self.vocabulary, self.width], normal(0.02))
    }

    fn block<'g>(&self, g: &'g Graph, x: Value<'g>, real: Option<Value<'g>>, layer: i64) -> Value<'g> {
        let name = |part: &str| format!("layers.{}.{}", layer, part);
        let y = rms_norm_layer(x, &name("mixer_norm"), 1e-6);
        let mut value = linear_layer(y, &name("value"), self.width);
        if let Some(real) = real {
            value = value * real;
        }
        let gate = sigmoid(linear_layer(y, &name("gate"), self.width));
        let y = gate * self.convolution(g, value, layer);
        let x = x + drop_some(linear_layer(y, &name("out"), self.width), self.dropout);
        let y = rms_norm_layer(x, &name("mlp_norm"), 1e-6);
        let y = silu(linear_layer(y, &name("up"), 4 * self.width));
        x + drop_some(linear_layer(y, &name("down"), self.width), self.dropout)
    }

    // y_t = sum_k weight_k * x_(t - kernel + 1 + k), channel by channel. Before the row it is 0; while text is
    // generated it is what the last chunk ended with, which the state keeps.
    fn convolution<'g>(&self, g: &'g Graph, x: Value<'g>, layer: i64) -> Value<'g> {
        let (batch, length, before) = (x.dim(0), x.dim(1), self.kernel - 1);
        let state = format!("layer.{}", layer);
        let all = concat(&[state_read(g.fill(&[batch, before, self.width], 0.0), &state), x], 1);
        state_write(slice(all, 1, length, before), &state);
        let name = format!("layers.{}.convolution.weight", layer);
        let weight = g.parameter(&name, &[self.kernel, self.width], normal(0.3));
        let mut y = slice(all, 1, 0, length) * slice(weight, 0, 0, 1);
        for k in 1..self.kernel {
            y = y + slice(all, 1, k, length) * slice(weight, 0, k, 1);
        }
        y
    }
}

plugin! { architecture "%NAME%": %CLASS% }
