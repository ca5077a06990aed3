// %NAME%: of several adapters, the mean of what they add, times a trained number for each channel.
use hekla_plugin::*;

struct %CLASS% {
    begin: f64,
}

impl Combiner for %CLASS% {
    fn new(config: &Config) -> Result<Self> {
        Ok(%CLASS% { begin: config.real("begin")? })
    }

    // What is added to y, from what each branch would add alone.
    fn combine<'g>(
        &self, g: &'g Graph, site: Site, _: &SiteValues<'g>, branches: &[Branch<'g>],
    ) -> Result<Combined<'g>> {
        let acting: Vec<Value> = branches.iter().filter_map(|branch| branch.delta).collect(); // the others add nothing here
        let count = acting.len() as f64;
        let sum = acting.into_iter().reduce(|sum, delta| sum + delta);
        let sum = sum.ok_or_else(|| Error::invalid("no branch acts at this site"))?;
        let scale = g.parameter("scale", &[site.outputs()], constant_of(self.begin));
        Ok(Combined { delta: sum * scale * (1.0 / count), weights: None, loss: None })
    }
}

plugin! { combiner "%NAME%": %CLASS% }
