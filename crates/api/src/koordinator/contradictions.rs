//! What a ConfigMap says that no node could keep, found before a node tries: what an admission
//! webhook refuses.

use netqos_core::classes::SharesError;
use netqos_core::{BitRate, Direction, LabelSelector};

use super::amount::Amount;
use super::network_qos::{Ask, Mistake, NetworkQos};
use super::node_slo::{ClassQos, NodeSlo};
use super::slo_config::{RESOURCE_QOS, SYSTEM, SloConfig, Strategies, with_defaults};

/// A line by which percentages are compared where nobody says what the line carries.
const SOME_LINE: BitRate = BitRate::from_bits_per_second(100);

impl SloConfig {
    /// Each strategy that contradicts itself, or asks for more than the line carries that goes with
    /// it: that of the system's strategy with an equal selector, else the cluster's. Where none is
    /// said, percentages are compared with each other, and rates with nothing.
    pub fn contradictions(&self) -> Vec<Mistake> {
        let (resources, system) = (&self.resources, &self.system);
        let mut found = Vec::new();
        let mut look = |at: String, selector: Option<&LabelSelector>| {
            let strategy = |strategies: &Strategies| {
                strategies.with(selector.and_then(|it| strategies.with_selector(it)))
            };
            let resources = with_defaults(&strategy(resources));
            let system = strategy(system);
            // What cannot be read was refused when it came.
            let slo = NodeSlo::read((&resources, &at), (&system, SYSTEM), &mut Vec::new());
            look_at(&slo, &at, &mut found);
        };
        look(format!("{RESOURCE_QOS}.clusterStrategy"), None);
        for (index, selector) in resources.selectors() {
            look(
                format!("{RESOURCE_QOS}.nodeStrategies[{index}]"),
                Some(selector),
            );
        }
        found
    }
}

impl NodeSlo {
    /// Whether a line can keep what is promised: the one that is said, else any. Where none is said,
    /// percentages are compared with each other, and rates with nothing.
    ///
    /// # Errors
    /// It cannot: what [`shares`](Self::shares) says.
    pub fn check(&self) -> Result<(), Vec<Mistake>> {
        if let Some(total) = self.total {
            return self.shares(total).map(|_| ());
        }
        let slo = percentages(self);
        let wrong: Vec<Mistake> = [Direction::Ingress, Direction::Egress]
            .into_iter()
            .filter_map(|direction| {
                let error = slo.shares_of(direction, SOME_LINE).err()?;
                Some(Mistake::new(direction.to_string(), in_percent(error)))
            })
            .collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong),
        }
    }
}

/// The error of a line of which each bit per second is a hundredth, in hundredths.
fn in_percent(error: SharesError) -> String {
    let of = BitRate::bits_per_second;
    match error {
        SharesError::NoLine => error.to_string(),
        SharesError::RequestAboveLimit { class, min, max } => {
            let (min, max) = (of(min), of(max));
            format!("{class}: a request of {min} % is above the limit of {max} %")
        }
        SharesError::AboveTotal { class, asked, .. } => {
            format!("{class}: {} % is above the total", of(asked))
        }
        SharesError::SumAboveTotal { sum, .. } => {
            format!("requests of {} % together are above 100 %", of(sum))
        }
    }
}

fn look_at(slo: &NodeSlo, path: &str, found: &mut Vec<Mistake>) {
    if let (Some(lsr), Some(ls)) = (&slo.lsr, &slo.ls)
        && let (Some(lsr), Some(ls)) = (lsr.asks(), ls.asks())
        && is_other(lsr, ls)
    {
        let what = "lsrClass and lsClass are one level of the line, which is counted once: they cannot \
                    ask for different parts of it. Say the same for both, or leave lsrClass out";
        found.push(Mistake::new(path, what));
    }
    for Mistake {
        path: direction,
        what,
    } in slo.check().err().unwrap_or_default()
    {
        found.push(Mistake::new(format!("{path} ({direction})"), what));
    }
}

/// True where the one says something else than the other; who says nothing agrees.
fn is_other(lsr: &NetworkQos, ls: &NetworkQos) -> bool {
    let amounts = |qos: &NetworkQos| {
        let NetworkQos { ingress, egress } = *qos;
        [ingress.request, ingress.limit, egress.request, egress.limit]
    };
    let pairs = amounts(lsr).into_iter().zip(amounts(ls));
    let mut said = pairs.filter_map(|(lsr, ls)| Some((lsr?, ls?)));
    said.any(|(lsr, ls)| lsr != ls)
}

/// The same without rates.
fn percentages(slo: &NodeSlo) -> NodeSlo {
    let percentage = |amount: Option<Amount>| amount.filter(|it| matches!(it, Amount::Percent(_)));
    let ask = |ask: Ask| Ask {
        request: percentage(ask.request),
        limit: percentage(ask.limit),
    };
    let class = |class: Option<ClassQos>| {
        class.map(|class| ClassQos {
            enable: class.enable,
            qos: NetworkQos {
                ingress: ask(class.qos.ingress),
                egress: ask(class.qos.egress),
            },
        })
    };
    NodeSlo {
        lsr: class(slo.lsr),
        ls: class(slo.ls),
        be: class(slo.be),
        system: class(slo.system),
        ..*slo
    }
}
