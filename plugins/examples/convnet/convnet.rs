// convnet: classes of small images, by two convolutions with batch normalization. The pixels are the tokens of a row.
use hekla_plugin::*;

struct Convnet {
    vocabulary: i64,
    width: i64,
    side: i64,
    labels: i64,
}

impl Architecture for Convnet {
    fn new(config: &Config) -> Result<Self> {
        Ok(Convnet {
            vocabulary: config.integer("vocab_size")?,
            width: config.integer("hidden_size")?,
            side: config.integer("side")?,
            labels: config.integer("num_labels")?,
        })
    }

    fn build(&self, g: &Graph) -> Result<()> {
        let ids = g.input("input_ids");
        let (batch, pixels) = (ids.dim(0), self.side * self.side);
        let mut x = embedding(g.parameter("pixels.weight", &[self.vocabulary, self.width], normal(0.5)), ids);
        if g.has_field("attention_mask") {
            // 0 where padding follows the pixels
            x = x * reshape(to_float(g.input("attention_mask")), &[batch, ids.dim(1), 1]);
        }
        if pixels > ids.dim(1) {
            x = pad_with(x, 1, PadOptions::new().after(pixels - ids.dim(1)));
        }
        let x = reshape(slice(x, 1, 0, pixels), &[batch, self.side, self.side, self.width]);
        let x = max_pool2d(self.block(g, x, "conv1"), &[2]);
        let x = self.block(g, x, "conv2");
        g.offer("hidden", reshape(x, &[batch, -1, self.width]));
        Ok(())
    }

    fn head(&self, g: &Graph, id: &str) -> Result<bool> {
        if id != "classes" {
            return Ok(false);
        }
        g.offer("logits", linear_layer_with_bias(mean(g.ask("hidden"), &[1]), "out", self.labels));
        Ok(true)
    }

    fn write(&self, out: &mut ConfigWriter) -> Result<()> {
        out.text("model_type", "convnet")?;
        out.integer("vocab_size", self.vocabulary)?;
        out.integer("hidden_size", self.width)?;
        out.integer("side", self.side)?;
        out.integer("num_labels", self.labels)
    }
}

impl Convnet {
    // A convolution of 3 x 3 pixels, batch normalization, ReLU: x [B, H, W, C].
    fn block<'g>(&self, g: &'g Graph, x: Value<'g>, name: &str) -> Value<'g> {
        let weight = g.parameter(&format!("{}.weight", name), &[self.width, self.width, 3, 3], normal(0.2));
        let x = conv2d_with(x, weight, Conv2dOptions::new().padding(&[1]));
        relu(self.batch_norm(g, x, &format!("{}.norm", name)))
    }

    // Training normalizes with the batch's statistics and moves the running ones, which evaluation reads.
    fn batch_norm<'g>(&self, g: &'g Graph, x: Value<'g>, name: &str) -> Value<'g> {
        let key = |part: &str| format!("{}.{}", name, part);
        let filled = |value: f64| vec![value; self.width as usize];
        let running_mean = g.buffer(&key("running_mean"), HK_KIND_FLOAT, &[self.width], &filled(0.0));
        let running_var = g.buffer(&key("running_var"), HK_KIND_FLOAT, &[self.width], &filled(1.0));
        let (mut center, mut variance) = (running_mean, running_var);
        if g.training() {
            let count = (x.dim(0) * x.dim(1) * x.dim(2)) as f64;
            center = mean(x, &[0, 1, 2]);
            let apart = x - center;
            variance = mean(apart * apart, &[0, 1, 2]);
            buffer_update(running_mean, running_mean * 0.9 + center * 0.1);
            buffer_update(running_var, running_var * 0.9 + variance * (0.1 * count / (count - 1.0)));
        }
        let normalized = (x - center) * rsqrt(variance + 1e-5);
        let gained = normalized * g.parameter(&key("weight"), &[self.width], ones());
        gained + g.parameter(&key("bias"), &[self.width], zeros())
    }
}

plugin! { architecture "convnet": Convnet }
