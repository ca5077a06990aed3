// %NAME%: causal language modelling with focal loss (Lin et al. 2017): what is already likely counts less.
use hekla_plugin::*;

struct %CLASS% {
    gamma: f64,
}

impl Objective for %CLASS% {
    // Examples are windows of a text. Objectives that read tables have columns() instead of tokens_per_example().
    const EXAMPLE_KIND: i32 = HK_EXAMPLE_WINDOW;

    fn new(config: &Config, _tokenizer: Option<Tokenizer>) -> Result<Self> {
        Ok(%CLASS% { gamma: config.real("gamma")? })
    }

    fn tokens_per_example(&self, length: i64) -> i64 {
        length + 1
    }

    // What collate writes and build reads.
    fn fields(&self, batch: i64, length: i64) -> Vec<Field> {
        vec![Field::ints("input_ids", &[batch, length]), Field::ints("next_ids", &[batch, length])]
    }

    // Runs on a worker thread: a pure function of the batch, so that a run can be repeated bit for bit.
    fn collate(&self, batch: &Batch, fields: &Fields) -> Result<()> {
        let (mut ids, mut next) = (fields.ints("input_ids")?, fields.ints("next_ids")?);
        next.fill_from(0, IGNORED); // rows of a short last batch count nothing
        for (row, example) in batch.examples().enumerate() {
            let tokens = example.get("text")?.ids();
            if tokens.len() < 2 {
                continue;
            }
            let size = (tokens.len() - 1).min(ids.width());
            ids.row(row)[..size].copy_from_slice(&tokens[..size]);
            next.row(row)[..size].copy_from_slice(&tokens[1..size + 1]);
        }
        Ok(())
    }

    // The loss, as a part of the graph. Its gradient is the engine's.
    fn build(&self, g: &Graph) -> Result<()> {
        let (logits, labels) = (g.ask("logits"), g.input("next_ids"));
        let surprise = cross_entropy(logits, labels); // -log p of each label; 0 where it is ignored
        let focus = pow(1.0 - exp(-surprise) + 1e-6, surprise.like(self.gamma));
        g.loss("%NAME%", sum_all(focus * surprise), sum_all(not_equal(labels, IGNORED.into())), 1.0);
        Ok(())
    }
}

plugin! { objective "%NAME%": %CLASS% }
