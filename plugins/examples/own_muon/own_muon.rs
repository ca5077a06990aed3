// own_muon: Muon (Jordan et al. 2024), the momentum of a matrix made nearly orthogonal by a Newton-Schulz iteration.
use hekla_plugin::*;

struct Muon {
    momentum: f64,
    steps: i64,
}

// a + (b - a) weight
fn lerp<'g>(a: Value<'g>, b: Value<'g>, weight: f64) -> Value<'g> {
    a + (b - a) * weight
}

impl Optimizer for Muon {
    fn new(config: &Config) -> Result<Self> {
        Ok(Muon { momentum: config.real("momentum")?, steps: config.integer("ns_steps")? })
    }

    // AdamW updates vectors, and the tables of embeddings.
    fn takes(&self, parameter: Optimized) -> bool {
        parameter.dims().len() == 2 && !parameter.is_table()
    }

    fn update<'g>(&self, g: &'g Graph, parameter: Optimized, v: &UpdateValues<'g>) -> Result<Value<'g>> {
        let before = state_read(g.fill(parameter.dims(), 0.0), "momentum");
        let mean = state_write(lerp(before, v.gradient, 1.0 - self.momentum), "momentum");
        let direction = self.orthogonal(parameter, lerp(v.gradient, mean, self.momentum));
        let (rows, columns) = (parameter.dims()[0] as f64, parameter.dims()[1] as f64);
        let rate = v.learning_rate * f64::sqrt(if rows > columns { rows / columns } else { 1.0 });
        Ok(v.parameter - rate * direction)
    }
}

impl Muon {
    // The iteration works on the smaller product of the matrix with itself.
    fn orthogonal<'g>(&self, parameter: Optimized, x: Value<'g>) -> Value<'g> {
        let tall = parameter.dims()[0] > parameter.dims()[1];
        let mut x = x / (sqrt(sum_all(x * x)) + 1e-12);
        for _ in 0..self.steps {
            let gram = matmul_with(x, x, MatmulOptions::new().transpose_a(tall).transpose_b(!tall));
            let square = matmul(gram, gram);
            let polynomial = gram * -4.775 + square * 2.0315;
            let turned = if tall { matmul(x, polynomial) } else { matmul(polynomial, x) };
            x = x * 3.4445 + turned;
        }
        x
    }
}

plugin! { optimizer "own_muon": Muon }
