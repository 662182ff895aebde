//! What a ConfigMap says that no node could keep, found before a node tries: what an admission
//! webhook refuses.

use netqos_core::classes::{Shares, SharesError, TrafficClass};
use netqos_core::{BitRate, Direction, LabelSelector};
use serde_json::{Map, Value};

use super::amount::Amount;
use super::network_qos::{Ask, Mistake, NetworkQos, join};
use super::node_slo::{ClassQos, NodeSlo};
use super::slo_config::{RESOURCE_QOS, SYSTEM, SloConfig, Strategies};

/// A line by which percentages are compared where nobody says what the line carries.
const SOME_LINE: BitRate = BitRate::from_bits_per_second(100);

const BOTH_WAYS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// [`NodeSlo::shares_of`], or the same with every request stated.
type SharesOf = fn(&NodeSlo, Direction, BitRate) -> Result<Shares, SharesError>;

/// Where a strategy stands.
#[derive(Clone, Copy, Debug)]
enum At {
    Cluster,
    /// In the list of nodes' strategies.
    Node(usize),
}

/// A strategy, and what goes with it.
struct Strategy {
    at: At,
    /// What it says. What is so by default is bounded by that, and contradicts nothing.
    said: NodeSlo,
    /// What of that is not the cluster's.
    own: NodeSlo,
}

impl SloConfig {
    /// Each strategy that contradicts itself, or asks for more than the line carries that goes with
    /// it: that of the system's strategy with an equal selector, else the cluster's. Where none is
    /// said, percentages are compared with each other, and rates with the limit beside them.
    ///
    /// What Koordinator's own webhook would say stands before what is wrong.
    pub fn contradictions(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        for Strategy { at, said, .. } in self.strategies() {
            let path = at.path();
            for direction in BOTH_WAYS {
                let wrong = match said.wrong(direction, NodeSlo::stated_shares_of) {
                    Some(wrong) if said.asks_too_much(direction) => {
                        Some(format!("{}: {wrong}", at.in_their_words(&said, direction)))
                    }
                    Some(wrong) => Some(wrong),
                    None if said.is_too_much_apart(direction) => Some(format!(
                        "{}: lsrClass and lsClass are one level of the line, which is counted once \
                         where they ask for the same. They ask for different parts of it, which are \
                         more than the line together with the others",
                        at.in_their_words(&said, direction)
                    )),
                    None => None,
                };
                let path = format!("{path} ({direction})");
                found.extend(wrong.map(|wrong| Mistake::new(path, wrong)));
            }
        }
        found
    }

    /// What can be followed, and is hardly meant.
    pub fn warnings(&self) -> Vec<Mistake> {
        let strategies = self.strategies();
        let differ = strategies.iter().filter(|it| it.said.differs());
        let what = "lsrClass and lsClass are one level of the line, which is counted once, and they ask \
                    for different parts of it: lsClass decides. Say the same for both, or leave lsrClass \
                    out";
        let differ = differ.map(|strategy| Mistake::new(strategy.at.path(), what));
        let mut found: Vec<Mistake> = differ.collect();
        for Strategy { at, own, .. } in &strategies {
            let path = at.path();
            let idle = own.warnings().into_iter();
            found.extend(idle.map(|it| Mistake::new(join(&path, &it.path), it.what)));
        }
        found.extend(self.system.unknown_keys());
        found
    }

    /// Where requests are percentages and quantities in one strategy, which Koordinator's webhook refuses,
    /// and begins like this. Here each is followed, of whatever the line carries.
    pub fn mixed_formats(&self) -> Vec<Mistake> {
        let strategies = self.strategies().into_iter();
        let mixed = strategies.filter(|strategy| strategy.own.has_both_formats());
        let told = mixed.map(|Strategy { at, .. }| {
            let of = match at {
                At::Cluster => "clusterStrategy".to_owned(),
                At::Node(index) => format!("nodeStrategy[{index}]"),
            };
            let what = format!(
                "only one type can be used for percentages or quantity in {of} where Koordinator's \
                 webhook is; netqos takes both, and can compare them only where the total is said"
            );
            Mistake::new(at.path(), what)
        });
        told.collect()
    }

    fn strategies(&self) -> Vec<Strategy> {
        let (resources, system) = (&self.resources, &self.system);
        let read = |at: At, selector: Option<&LabelSelector>, own: &Map<String, Value>| {
            let strategy = |strategies: &Strategies| {
                strategies.with(selector.and_then(|it| strategies.with_selector(it)))
            };
            let (said, system) = (strategy(resources), strategy(system));
            let path = at.path();
            // What cannot be read was refused when it came.
            let read = |resources: &Map<String, Value>| {
                NodeSlo::read((resources, &path), (&system, SYSTEM), &mut Vec::new())
            };
            Strategy {
                at,
                said: read(&said),
                own: read(own),
            }
        };
        let nodes = resources.nodes().iter();
        let nodes =
            nodes.map(|node| read(At::Node(node.index), Some(&node.selector), &node.strategy));
        std::iter::once(read(At::Cluster, None, resources.cluster()))
            .chain(nodes)
            .collect()
    }
}

impl At {
    fn path(self) -> String {
        match self {
            Self::Cluster => format!("{RESOURCE_QOS}.clusterStrategy"),
            Self::Node(index) => format!("{RESOURCE_QOS}.nodeStrategies[{index}]"),
        }
    }

    /// How Koordinator's webhook says that requests are too much together.
    fn in_their_words(self, slo: &NodeSlo, direction: Direction) -> String {
        let are_percentages = slo
            .requests(direction)
            .all(|request| matches!(request, Amount::Percent(_)));
        match (self, are_percentages) {
            (Self::Cluster, true) => {
                "ClusterStrategy total net bandwidth percentage already over 100".to_owned()
            }
            (Self::Node(index), true) => {
                format!(
                    "cfg.NodeStrategies[{index}] total net bandwidth percentage already over 100"
                )
            }
            (Self::Cluster, false) => {
                "total net bandwidth over total network bandwidth in clusterStrategy".to_owned()
            }
            (Self::Node(index), false) => format!(
                "total net bandwidth quantity already over total network bandwidth in \
                 cfg.NodeStrategies[{index}]"
            ),
        }
    }
}

impl NodeSlo {
    /// Whether a line can keep what is promised: the one that is said, else any. Where none is said,
    /// percentages are compared with each other, and rates with the limit beside them.
    ///
    /// # Errors
    /// It cannot: what [`shares`](Self::shares) says.
    pub fn check(&self) -> Result<(), Vec<Mistake>> {
        let wrong = BOTH_WAYS.into_iter().filter_map(|direction| {
            let wrong = self.wrong(direction, Self::shares_of)?;
            Some(Mistake::new(direction.to_string(), wrong))
        });
        match wrong.collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            wrong => Err(wrong),
        }
    }

    /// What is not followed, by its path.
    pub fn warnings(&self) -> Vec<Mistake> {
        let asks = self.system.as_ref().and_then(ClassQos::asks);
        let limited = BOTH_WAYS.into_iter().filter(|direction| {
            let limit = asks.and_then(|qos| qos.of(*direction).limit);
            limit.is_some_and(|limit| match limit {
                // None, as of every class.
                Amount::Percent(percent) => percent != 0 && percent != 100,
                Amount::Rate(rate) => rate > BitRate::default(),
            })
        });
        let what = "is not kept: the system may always have the whole line, so that the kubelet and ssh \
                    are never cut off. Say 100, or leave it out";
        limited
            .map(|direction| Mistake::new(format!("systemClass.networkQOS.{direction}Limit"), what))
            .collect()
    }

    fn wrong(&self, direction: Direction, shares_of: SharesOf) -> Option<String> {
        match self.total {
            Some(total) => {
                let error = shares_of(self, direction, total).err()?;
                Some(error.to_string())
            }
            None => match shares_of(&percentages(self), direction, SOME_LINE) {
                Err(error) => Some(in_percent(error)),
                Ok(_) => Some(self.rate_above_its_limit(direction)?.to_string()),
            },
        }
    }

    /// A request that is above its limit on every line: both are rates.
    fn rate_above_its_limit(&self, direction: Direction) -> Option<SharesError> {
        let classes = [
            (TrafficClass::LatencySensitive, self.l1()),
            (TrafficClass::BestEffort, self.be.as_ref()),
        ];
        classes.into_iter().find_map(|(class, said)| {
            match *said?.asks()?.of(direction) {
                Ask {
                    request: Some(Amount::Rate(min)),
                    limit: Some(Amount::Rate(max)),
                    // A limit of nothing is none.
                } if min > max && max > BitRate::default() => {
                    Some(SharesError::RequestAboveLimit { class, min, max })
                }
                _ => None,
            }
        })
    }

    /// What the levels of the line ask for, LSR and LS counted once.
    fn requests(&self, direction: Direction) -> impl Iterator<Item = Amount> {
        requests(
            [self.l1(), self.be.as_ref(), self.system.as_ref()],
            direction,
        )
    }

    /// Whether it is the requests together that no line could keep.
    fn asks_too_much(&self, direction: Direction) -> bool {
        self.is_more_than_the_line(self.requests(direction))
    }

    /// Whether it is, were LSR and LS, which ask for different parts, counted each, as Koordinator does.
    fn is_too_much_apart(&self, direction: Direction) -> bool {
        let classes = [self.lsr.as_ref(), self.ls.as_ref(), self.be.as_ref()];
        self.differs() && self.is_more_than_the_line(requests(classes, direction))
    }

    fn is_more_than_the_line(&self, requests: impl Iterator<Item = Amount>) -> bool {
        let parts = requests.map(|request| match (self.total, request) {
            (Some(total), request) => request.of(total).bits_per_second(),
            (None, Amount::Percent(percent)) => percent.into(),
            (None, Amount::Rate(_)) => 0,
        });
        let line = self.total.unwrap_or(SOME_LINE).bits_per_second();
        parts.fold(0, u64::saturating_add) > line
    }

    /// Whether requests are percentages and quantities, the system's not counted, as in Koordinator.
    fn has_both_formats(&self) -> bool {
        let classes = [self.lsr.as_ref(), self.ls.as_ref(), self.be.as_ref()];
        // Also of classes that are taken out.
        let asks = classes.into_iter().flatten().map(|class| class.qos);
        let requests = asks.flat_map(|qos| [qos.ingress.request, qos.egress.request]);
        let (percentages, rates): (Vec<_>, Vec<_>) = requests
            .flatten()
            .partition(|request| matches!(request, Amount::Percent(_)));
        !percentages.is_empty() && !rates.is_empty()
    }

    /// Whether LSR and LS ask for different parts of the level that they share.
    fn differs(&self) -> bool {
        let asks = |class: &Option<ClassQos>| class.as_ref().and_then(ClassQos::asks).copied();
        match (asks(&self.lsr), asks(&self.ls)) {
            (Some(lsr), Some(ls)) => is_other(&lsr, &ls),
            _ => false,
        }
    }
}

fn requests<const N: usize>(
    classes: [Option<&ClassQos>; N],
    direction: Direction,
) -> impl Iterator<Item = Amount> {
    let classes = classes.into_iter().flatten();
    classes.filter_map(move |class| class.asks()?.of(direction).request)
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

/// The same without rates. Who decides for the level of LSR and LS does so also where it asks for rates
/// alone.
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
        lsr: None,
        ls: class(slo.l1().copied()),
        be: class(slo.be),
        system: class(slo.system),
        ..*slo
    }
}

#[cfg(test)]
mod tests;
