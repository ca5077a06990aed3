// %NAME%: classes of a row, from the mean of its tokens' states through a hidden layer.
use hekla_plugin::*;

struct %CLASS% {
    labels: i64,
    inner: i64,
}

impl Head for %CLASS% {
    // What decode reads.
    const PORTS: &'static [&'static str] = &["logits"];

    fn new(config: &Config) -> Result<Self> {
        Ok(%CLASS% { labels: config.integer_or("num_labels", 2)?, inner: config.integer("inner_size")? })
    }

    // Asks the body for what it offers, and offers what the objective asks for.
    fn build(&self, g: &Graph) -> Result<()> {
        let hidden = g.ask("hidden"); // [B, T, width]
        let (batch, length) = (hidden.dim(0), hidden.dim(1));
        let mask = if g.has_field("attention_mask") {
            g.input("attention_mask")
        } else {
            g.fill_with(&[batch, length], 1.0, HK_KIND_INT32)
        };
        let mask = to_float(mask); // padding never counts
        let total = sum(hidden * reshape(mask, &[batch, length, 1]), &[1]);
        let row = total / reshape(sum(mask, &[1]), &[batch, 1]);
        let inner = gelu(linear_layer_with_bias(row, "%NAME%.inner", self.inner));
        g.offer("logits", linear_layer_with_bias(inner, "%NAME%.out", self.labels));
        Ok(())
    }

    // The result of a row, as JSON.
    fn decode(&self, input: &DecodeInput, row: usize) -> Result<String> {
        let logits = input.output("logits")?.row(row);
        let (label, probabilities) = (best_of(logits), json_numbers(&softmax_of(logits)));
        Ok(format!("{{\"label\": {}, \"probabilities\": {}}}", label, probabilities))
    }
}

plugin! { head "%NAME%": %CLASS% }
