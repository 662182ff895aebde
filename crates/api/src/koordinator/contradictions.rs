//! What a ConfigMap says that no node could keep, found before a node tries: what an admission
//! webhook refuses.

use netqos_core::classes::{SharesError, TrafficClass};
use netqos_core::{BitRate, Direction, LabelSelector};
use serde_json::{Map, Value};

use super::amount::Amount;
use super::network_qos::{Ask, Mistake, NetworkQos, join};
use super::node_slo::{ClassQos, NodeSlo};
use super::slo_config::{RESOURCE_QOS, SYSTEM, SloConfig, Strategies, with_defaults};

/// A line by which percentages are compared where nobody says what the line carries.
const SOME_LINE: BitRate = BitRate::from_bits_per_second(100);

const BOTH_WAYS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

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
    /// What it says, and is so by default.
    slo: NodeSlo,
    /// What it says.
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
        for Strategy { at, slo, said, .. } in self.strategies() {
            let path = at.path();
            for direction in BOTH_WAYS {
                let wrong = match slo.wrong(direction) {
                    Some(wrong) if slo.asks_too_much(direction) => {
                        Some(format!("{}: {wrong}", at.in_their_words(&slo, direction)))
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
                slo: read(&with_defaults(&said)),
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
            let wrong = self.wrong(direction)?;
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

    fn wrong(&self, direction: Direction) -> Option<String> {
        match self.total {
            Some(total) => {
                let error = self.shares_of(direction, total).err()?;
                Some(error.to_string())
            }
            None => match percentages(self).shares_of(direction, SOME_LINE) {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn strategies(cluster: Value, nodes: Value, total: &str) -> SloConfig {
        let resources = json!({"clusterStrategy": cluster, "nodeStrategies": nodes});
        let system = json!({"clusterStrategy": {"totalNetworkBandwidth": total}});
        let data = [(RESOURCE_QOS, resources), (SYSTEM, system)];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_string()));
        let mut config = SloConfig::default();
        config.update(&BTreeMap::from(data)).unwrap();
        config
    }

    fn class(request: Value) -> Value {
        json!({"networkQOS": {"egressRequest": request}})
    }

    #[test]
    fn what_koordinator_refuses_begins_in_its_words() {
        let node = |strategy: Value| {
            let mut node = json!({"nodeSelector": {"matchLabels": {"a": "b"}}});
            node["lsClass"] = strategy;
            json!([{"name": "other"}, node])
        };
        for (cluster, nodes, total, says) in [
            (
                json!({"lsClass": class(json!(80))}),
                json!([]),
                "0",
                "ClusterStrategy total net bandwidth percentage already over 100: requests of 110 % together",
            ),
            (
                json!({"lsClass": class(json!(80))}),
                json!([]),
                "1000M",
                "ClusterStrategy total net bandwidth percentage already over 100: requests of 1.1 Gbit/s",
            ),
            (
                json!({}),
                node(class(json!(80))),
                "0",
                "cfg.NodeStrategies[1] total net bandwidth percentage already over 100: requests of 110 %",
            ),
            (
                json!({"lsClass": class(json!("800M"))}),
                json!([]),
                "1000M",
                "total net bandwidth over total network bandwidth in clusterStrategy: requests of 1.1 Gbit/s",
            ),
            (
                json!({"beClass": class(json!("2G"))}),
                json!([]),
                "1000M",
                "total net bandwidth over total network bandwidth in clusterStrategy: best-effort: 2 Gbit/s",
            ),
            (
                json!({}),
                node(class(json!("800M"))),
                "1000M",
                "total net bandwidth quantity already over total network bandwidth in cfg.NodeStrategies[1]: requests of 1.1",
            ),
            (
                json!({"lsrClass": class(json!("500M")), "lsClass": class(json!("600M"))}),
                json!([]),
                "1000M",
                "total net bandwidth over total network bandwidth in clusterStrategy: lsrClass and lsClass",
            ),
        ] {
            let found = strategies(cluster, nodes, total).contradictions();
            assert_eq!(found.len(), 1, "{says}: {found:#?}");
            assert!(found[0].what.starts_with(says), "{says}: {found:#?}");
        }
    }

    #[test]
    fn percentages_and_quantities_in_one_strategy_are_warned_of_in_its_words() {
        let node = |strategy: Value| {
            let mut node = json!({"nodeSelector": {"matchLabels": {"a": "b"}}});
            node["lsClass"] = strategy;
            json!([{"name": "other"}, node])
        };
        let (percent, rate) = (class(json!(20)), class(json!("20M")));
        let both = json!({"networkQOS": {"ingressRequest": 20, "egressRequest": "20M"}});
        let limit = json!({"networkQOS": {"egressRequest": 20, "egressLimit": "200M"}});
        let says = "only one type can be used for percentages or quantity in";
        for (cluster, nodes, of) in [
            (
                json!({"lsrClass": percent, "beClass": rate}),
                json!([]),
                Some("clusterStrategy"),
            ),
            (json!({"lsClass": both}), json!([]), Some("clusterStrategy")),
            (json!({}), node(both), Some("nodeStrategy[1]")),
            // Neither limits nor the system count, nor what two strategies say.
            (json!({"lsClass": limit}), json!([]), None),
            (
                json!({"lsClass": percent, "systemClass": rate}),
                json!([]),
                None,
            ),
            (json!({"beClass": percent}), node(rate), None),
        ] {
            let config = strategies(cluster.clone(), nodes, "1000M");
            assert_eq!(config.contradictions(), [], "{cluster}");
            let found = config.mixed_formats();
            assert_eq!(
                found.len(),
                usize::from(of.is_some()),
                "{cluster}: {found:?}"
            );
            if let Some(of) = of {
                assert!(
                    found[0].what.starts_with(&format!("{says} {of} ")),
                    "{found:?}"
                );
            }
        }
    }

    /// Of what Koordinator does not look at it has no words.
    #[test]
    fn a_request_above_its_own_limit_is_said_in_ours() {
        let both = |request: &str, limit: &str| json!({"networkQOS": {"egressRequest": request, "egressLimit": limit}});
        for total in ["1000M", "0"] {
            for (class, name) in [("lsClass", "latency-sensitive"), ("beClass", "best-effort")] {
                let found = |request: &str, limit: &str| {
                    let cluster = json!({class: both(request, limit)});
                    strategies(cluster, json!([]), total).contradictions()
                };
                let above = found("80M", "70M");
                let says = "a request of 80 Mbit/s is above the limit of 70 Mbit/s";
                let says = format!("{name}: {says}");
                assert!(above.iter().all(|it| it.what == says), "{above:#?}");
                assert_eq!(above.len(), 1, "{total}");
                assert_eq!(found("80M", "80M"), []);
                assert_eq!(found("80M", "0"), []);
            }
        }
        // Of a line that nobody knows only what is above on every line.
        let mixed = json!({"networkQOS": {"egressRequest": "80M", "egressLimit": 1}});
        let found = strategies(json!({"lsClass": mixed}), json!([]), "0").contradictions();
        assert_eq!(found, []);
    }

    #[test]
    fn a_limit_of_the_system_is_warned_of() {
        let system = |limit: Value| json!({"networkQOS": {"egressLimit": limit}});
        let path = "resource-qos-config.clusterStrategy.systemClass.networkQOS.egressLimit";
        for (limit, is_warned_of) in [
            (json!(90), true),
            (json!("50M"), true),
            (json!(100), false),
            (json!(0), false),
            (json!("0"), false),
            (json!(null), false),
        ] {
            let cluster = json!({"systemClass": system(limit.clone())});
            let config = strategies(cluster.clone(), json!([]), "100M");
            assert_eq!(config.contradictions(), []);
            let warnings = config.warnings();
            let paths: Vec<&str> = warnings.iter().map(|it| &*it.path).collect();
            assert_eq!(paths == [path], is_warned_of, "{limit}: {warnings:?}");
            let spec = Map::from_iter([("resourceQOSStrategy".to_owned(), cluster)]);
            let warnings = NodeSlo::from_spec(&spec).unwrap().warnings();
            let paths: Vec<&str> = warnings.iter().map(|it| &*it.path).collect();
            let right = ["systemClass.networkQOS.egressLimit"];
            assert_eq!(paths == right, is_warned_of, "{limit}: {warnings:?}");
        }
        // Each strategy by itself; who is taken out has no limit.
        let node = json!({"nodeSelector": {"matchLabels": {"a": "b"}}, "beClass": class(json!(1))});
        let out = json!({"networkQOS": {"enable": false, "egressLimit": 9}});
        for (system, many) in [(system(json!(90)), 1), (out, 0)] {
            let config = strategies(json!({"systemClass": system}), json!([node]), "100M");
            assert_eq!(config.warnings().len(), many);
        }
    }

    #[test]
    fn where_lsr_differs_from_ls_that_is_warned_of_and_ls_decides() {
        let other = json!({"lsrClass": class(json!(30)), "lsClass": class(json!(40))});
        let config = strategies(other, json!([]), "0");
        assert_eq!(config.contradictions(), []);
        let warnings = config.warnings();
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].path, "resource-qos-config.clusterStrategy");
        assert!(warnings[0].what.contains("lsClass decides"));
        let same = json!({"lsrClass": class(json!(40)), "lsClass": class(json!(40))});
        let config = strategies(same, json!([]), "0");
        assert_eq!(
            (config.contradictions(), config.warnings()),
            (vec![], vec![])
        );
    }
}
