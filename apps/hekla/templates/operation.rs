// %NAME%: an operation of its own, y = x * sigmoid(sharpness * gate), in GLSL and with its gradient, and a small language
// model that uses it. Other plugins may use it too, by its id and revision.
use hekla_plugin::*;

struct Gate;

impl Operation for Gate {
    // What it takes and gives. operation() runs once for every element of the first output; load_NAME(i) and
    // store_NAME(i, v) are made by Hekla: they stay inside of the tensors, whatever i is.
    fn describe() -> OperationText {
        OperationText {
            inputs: vec![float_input("x"), float_input("gate")],
            attributes: vec![optional("sharpness", Attribute::Real(1.0))],
            outputs: vec!["y"],
            glsl: glsl!("
float squashed(float v) { return 1.0 / (1.0 + exp(-v)); }
void operation(uint i) {
    store_y(i, load_x(i) * squashed(sharpness * load_gate(i)));
}
"),
            ..OperationText::default()
        }
    }

    // The shapes that come out, and what is wrong with those that go in.
    fn shape(u: &mut OperationUse) -> Result<()> {
        u.require_same_shape(0, 1)?;
        u.give(0, &u.shape(0)?)
    }

    // The gradient of each input, in operations of operations.rs (or other ones of your own).
    fn gradient<'g>(d: &OperationGradient<'g>) -> Result<Vec<Option<Value<'g>>>> {
        let sharpness = d.real("sharpness")?;
        let (x, s, dy) = (d.inputs[0], sigmoid(d.inputs[1] * sharpness), d.output_gradients[0]);
        let closed = 1.0 - s;
        let of_x = dy * s;
        Ok(vec![Some(of_x), Some(of_x * x * closed * sharpness)])
    }

    // The same in double precision, plainly: the kernel is checked against it.
    fn reference(u: &mut OperationUse) -> Result<()> {
        let (sharpness, x, gate) = (u.real("sharpness")?, u.input(0)?, u.input(1)?);
        for (i, y) in u.output(0)?.iter_mut().enumerate() {
            *y = x[i] / (1.0 + (-sharpness * gate[i]).exp());
        }
        Ok(())
    }
}

// config.json's keys. Defaults and documentation are in manifest.json, and only there.
struct %CLASS% {
    vocabulary: i64,
    positions: i64,
    width: i64,
    layers: i64,
    heads: i64,
    sharpness: f64,
}

impl Architecture for %CLASS% {
    fn new(config: &Config) -> Result<Self> {
        let made = %CLASS% {
            vocabulary: config.integer("vocab_size")?,
            positions: config.integer("max_position_embeddings")?,
            width: config.integer("hidden_size")?,
            layers: config.integer("num_hidden_layers")?,
            heads: config.integer("num_attention_heads")?,
            sharpness: config.real("sharpness")?,
        };
        if made.heads < 1 || made.width < 1 || made.width % made.heads != 0 {
            return Err(Error::invalid(format!(
                "hidden_size = {} must be a multiple of num_attention_heads = {}",
                made.width, made.heads
            )));
        }
        Ok(made)
    }

    // The body: from token ids [B, T] to hidden states [B, T, width], which heads ask for by the port's name.
    fn build(&self, g: &Graph) -> Result<()> {
        let ids = g.input("input_ids");
        if ids.dim(1) > self.positions {
            return Err(Error::invalid(format!(
                "the batch has rows of {} tokens, the model max_position_embeddings = {}",
                ids.dim(1), self.positions
            )));
        }
        let places = if g.has_field("position_ids") { g.input("position_ids") } else { g.positions(ids.dim(0), ids.dim(1)) };
        let of_words = embedding(self.words(g), ids);
        let mut x = of_words + embedding(g.parameter("positions.weight", &[self.positions, self.width], normal(0.02)), places);
        let mut padding = None; // 1 where there is a token, 0 where there is padding
        if g.mode() != Mode::Decode && g.has_field("attention_mask") {
            padding = Some(g.input("attention_mask"));
        }
        for layer in 0..self.layers {
            let _scope = g.scope(&format!("block.{}", layer)); // errors and pictures name it
            x = self.block(g, x, padding, layer);
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
        out.integer("max_position_embeddings", self.positions)?;
        out.integer("hidden_size", self.width)?;
        out.integer("num_hidden_layers", self.layers)?;
        out.integer("num_attention_heads", self.heads)?;
        out.real("sharpness", self.sharpness)
    }
}

impl %CLASS% {
    // The same name is the same parameter, in every call.
    fn words<'g>(&self, g: &'g Graph) -> Value<'g> {
        g.parameter("words.weight", &[self.vocabulary, self.width], normal(0.02))
    }

    // recompute(): only the result of a block is kept for the gradient; the rest is computed again.
    fn block<'g>(&self, g: &'g Graph, x: Value<'g>, padding: Option<Value<'g>>, layer: i64) -> Value<'g> {
        let _region = g.recompute();
        let x = x + self.attend(g, x, padding, layer);
        x + self.feed_forward(g, x, layer)
    }

    fn attend<'g>(&self, g: &'g Graph, x: Value<'g>, padding: Option<Value<'g>>, layer: i64) -> Value<'g> {
        let _scope = g.scope("attention");
        let name = |part: &str| format!("layers.{}.{}", layer, part);
        let x = rms_norm_layer(x, &name("attention_norm"), 1e-6);
        // [B, T, H D] -> [B, H, T, D] of a layer's output
        let heads = |part: &str| {
            let y = linear_layer(x, &name(part), self.width);
            transpose(reshape(y, &[x.dim(0), x.dim(1), self.heads, self.width / self.heads]), &[0, 2, 1, 3])
        };
        let (q, k, v) = (heads("query"), heads("key"), heads("value"));
        let options = AttentionOptions::new()
            .key_padding(padding)
            .scale(1.0 / ((self.width / self.heads) as f64).sqrt())
            .causal(1)
            .cache(&format!("layer.{}", layer)); // generation keeps keys and values
        let y = transpose(attention_with(q, k, v, options), &[0, 2, 1, 3]);
        linear_layer(reshape(y, &[x.dim(0), x.dim(1), self.width]), &name("out"), self.width)
    }

    fn feed_forward<'g>(&self, g: &'g Graph, x: Value<'g>, layer: i64) -> Value<'g> {
        let _scope = g.scope("mlp");
        let name = |part: &str| format!("layers.{}.{}", layer, part);
        let x = rms_norm_layer(x, &name("mlp_norm"), 1e-6);
        let (up, gate) = (linear_layer(x, &name("up"), 4 * self.width), linear_layer(x, &name("gate"), 4 * self.width));
        let y = own("%NAME%.gate", 1, &[up, gate], &[("sharpness", Attribute::Real(self.sharpness))]);
        linear_layer(y, &name("down"), self.width)
    }
}

plugin! { operation "%NAME%.gate": Gate, architecture "%NAME%": %CLASS% }
