// %NAME%: each gradient is divided by the root of a running mean of its squares (RMSprop, Hinton 2012).
use hekla_plugin::*;

struct %CLASS% {
    alpha: f64,
    eps: f64,
}

impl Optimizer for %CLASS% {
    fn new(config: &Config) -> Result<Self> {
        Ok(%CLASS% { alpha: config.real("alpha")?, eps: config.real("eps")? })
    }

    // The new parameter. A state begins with zeros, and state_write() sets it for the following step.
    fn update<'g>(&self, g: &'g Graph, parameter: Optimized, v: &UpdateValues<'g>) -> Result<Value<'g>> {
        let before = state_read(g.fill(parameter.dims(), 0.0), "square_avg");
        let squares = before + (v.gradient * v.gradient - before) * (1.0 - self.alpha);
        let squares = state_write(squares, "square_avg");
        Ok(v.parameter - v.learning_rate * v.gradient / (sqrt(squares) + self.eps))
    }
}

plugin! { optimizer "%NAME%": %CLASS% }
