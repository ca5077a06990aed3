// taught: a language model with a teacher, which has the student's weights averaged over steps (Tarvainen and Valpola
// 2017). The objective taught_next adds the squared distance of the student's logits from the teacher's; evaluation and
// generation use the teacher.
use hekla_plugin::*;

struct Taught {
    vocabulary: i64,
    width: i64,
    decay: f64,
}

struct Weights<'g> {
    words: Value<'g>,
    up: Value<'g>,
    down: Value<'g>,
}

// x + down gelu(up x)
fn network<'g>(w: &Weights<'g>, ids: Value<'g>) -> Value<'g> {
    let x = embedding(w.words, ids);
    x + linear(gelu(linear(x, w.up)), w.down)
}

impl Architecture for Taught {
    fn new(config: &Config) -> Result<Self> {
        Ok(Taught {
            vocabulary: config.integer("vocab_size")?,
            width: config.integer("hidden_size")?,
            decay: config.real("decay")?,
        })
    }

    fn build(&self, g: &Graph) -> Result<()> {
        let ids = g.input("input_ids");
        let words = g.parameter("words.weight", &[self.vocabulary, self.width], normal(0.1));
        let up = g.parameter("up.weight", &[4 * self.width, self.width], normal(0.1));
        let down = g.parameter("down.weight", &[self.width, 4 * self.width], normal(0.1));
        let student = Weights { words, up, down };
        // Of the averages, which begin with zeros, this part is known: 0 before the first step, and nearly 1 later.
        let known = self.averaged(g, "average.known", g.fill(&[1], 1.0));
        let divisor = maximum(known, g.number(1e-6));
        let teacher = Weights {
            words: self.averaged(g, "average.words", words) / divisor,
            up: self.averaged(g, "average.up", up) / divisor,
            down: self.averaged(g, "average.down", down) / divisor,
        };
        let of_teacher = network(&teacher, ids);
        g.offer("hidden", if g.training() { network(&student, ids) } else { of_teacher });
        g.offer("embedding.weight", if g.training() { words } else { teacher.words });
        g.offer("average.logits", linear(of_teacher, teacher.words));
        g.offer("average.known", known);
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
        out.text("model_type", "taught")?;
        out.integer("vocab_size", self.vocabulary)?;
        out.integer("hidden_size", self.width)?;
        out.real("decay", self.decay)
    }
}

impl Taught {
    // The average from before the step; a step moves it toward `value`.
    fn averaged<'g>(&self, g: &'g Graph, name: &str, value: Value<'g>) -> Value<'g> {
        let dims = value.shape();
        let zeros = vec![0.0; dims.iter().product::<i64>() as usize];
        let average = g.buffer(name, HK_KIND_FLOAT, &dims, &zeros);
        if g.training() {
            buffer_update(average, average * self.decay + value * (1.0 - self.decay));
        }
        average
    }
}

struct TaughtNext {
    weight: f64,
}

impl Objective for TaughtNext {
    const EXAMPLE_KIND: i32 = HK_EXAMPLE_WINDOW;

    fn new(config: &Config, _tokenizer: Option<Tokenizer>) -> Result<Self> {
        Ok(TaughtNext { weight: config.real("weight")? })
    }

    fn tokens_per_example(&self, length: i64) -> i64 {
        length + 1
    }

    fn fields(&self, batch: i64, length: i64) -> Vec<Field> {
        vec![Field::ints("input_ids", &[batch, length]), Field::ints("next_ids", &[batch, length])]
    }

    fn collate(&self, batch: &Batch, fields: &Fields) -> Result<()> {
        let (mut ids, mut next) = (fields.ints("input_ids")?, fields.ints("next_ids")?);
        next.fill_from(0, IGNORED);
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

    fn build(&self, g: &Graph) -> Result<()> {
        let (logits, labels) = (g.ask("logits"), g.input("next_ids"));
        let counts = not_equal(labels, IGNORED.into());
        let count = sum_all(counts);
        g.loss("next", sum_all(cross_entropy(logits, labels)), count, 1.0);
        if g.training() {
            let apart = logits - g.ask("average.logits");
            let of_token = mean(apart * apart, &[2]) * to_float(counts);
            g.loss("teacher", sum_all(of_token * g.ask("average.known")), count, self.weight);
        }
        Ok(())
    }
}

plugin! { architecture "taught": Taught, objective "taught_next": TaughtNext }
