// %NAME%: a low-rank matrix that is added to every linear layer of a trained body: y + B A x (LoRA, Hu et al. 2021).
use hekla_plugin::*;

struct %CLASS% {
    rank: i64,
}

impl %CLASS% {
    // Returns A [rank, in] and B [out, rank].
    fn matrices<'g>(&self, g: &'g Graph, site: Site) -> (Value<'g>, Value<'g>) {
        let a = g.parameter("a", &[self.rank, site.inputs()], normal(0.02));
        (a, g.parameter("b", &[site.outputs(), self.rank], zeros()))
    }
}

impl Adapter for %CLASS% {
    const MERGES: bool = true;

    fn new(config: &Config) -> Result<Self> {
        Ok(%CLASS% { rank: config.integer("rank")? })
    }

    // Where it acts.
    fn wants(&self, site: Site) -> Result<bool> {
        Ok(site.is_linear() && !site.of_head())
    }

    // What is added to y. B begins with zeros, so that nothing changes before training.
    fn adapt<'g>(&self, g: &'g Graph, site: Site, v: &SiteValues<'g>) -> Result<Answer<'g>> {
        let (a, b) = self.matrices(g, site);
        Ok(Answer::delta(linear(linear(v.x, a), b)).from(v.x))
    }

    // The weight with which the layer alone computes the same.
    fn merge<'g>(
        &self, g: &'g Graph, site: Site, weight: Value<'g>, bias: Option<Value<'g>>,
    ) -> Result<MergedSite<'g>> {
        let (a, b) = self.matrices(g, site);
        Ok(MergedSite { weight: weight + matmul(b, a), bias })
    }
}

plugin! { adapter "%NAME%": %CLASS% }
