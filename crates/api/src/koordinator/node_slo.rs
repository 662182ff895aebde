//! What a node's line is divided into: the slice of Koordinator's `NodeSLO` that concerns the
//! network.

use std::fmt;
use std::str::FromStr;

use netqos_core::BitRate;
use netqos_core::Direction;
use netqos_core::classes::{LineShares, Share, Shares, SharesError, TrafficClass};
use serde_json::{Map, Value, json};

use super::amount::{Amount, total};
use super::network_qos::{Ask, Mistake, NETWORK_KEYS, NetworkQos, check_keys, field, join};

/// The label of a node that says who divides its lines.
pub const BACKEND_LABEL: &str = "netqos.io/class-backend";

/// The least rate of a class.
const LEAST: BitRate = BitRate::from_bits_per_second(100_000);

/// The fields of a strategy that concern the network.
pub(super) const STRATEGY: [&str; 5] =
    ["lsrClass", "lsClass", "beClass", "systemClass", "policies"];
const TOTAL: &str = "totalNetworkBandwidth";
const POLICY: &str = "netQOSPolicy";
pub(super) const NETWORK_QOS: &str = "networkQOS";

/// Who divides a node's line: the values of `netQOSPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendKind {
    /// `kernel`: netqos' own classes and programs. (Not one of Koordinator's.)
    Kernel,
    /// `tc`: HTB, ipsets and iptables, as the proposal has them.
    Tc,
    /// `terway-qos`: files that terway-qos reads.
    TerwayQos,
    /// `none`: nobody. (Not one of Koordinator's.)
    None,
}

/// A name that is no backend's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} divides no lines: write kernel, tc, terway-qos or none")]
pub struct NotABackend(pub String);

/// What a class of pods is to get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassQos {
    /// Whether it takes part; `None`: nothing is said.
    pub enable: Option<bool>,
    /// What it asks for.
    pub qos: NetworkQos,
}

/// The network's slice of `NodeSLO.spec`, for one node. What a class of it does not say is not guaranteed
/// and not limited; of a class of which nothing is said, [`with_defaults`](NodeSlo::with_defaults).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSlo {
    /// `resourceQOSStrategy.policies.netQOSPolicy`.
    pub policy: Option<BackendKind>,
    /// `systemStrategy.totalNetworkBandwidth`: what the line carries. Zero, which Koordinator has
    /// where nothing is said, is nothing said.
    pub total: Option<BitRate>,
    /// `resourceQOSStrategy.lsrClass.networkQOS`. It shares l1 with `ls`, which decides where it is
    /// not taken out and says something.
    pub lsr: Option<ClassQos>,
    /// `resourceQOSStrategy.lsClass.networkQOS`.
    pub ls: Option<ClassQos>,
    /// `resourceQOSStrategy.beClass.networkQOS`.
    pub be: Option<ClassQos>,
    /// `resourceQOSStrategy.systemClass.networkQOS`.
    pub system: Option<ClassQos>,
}

/// The amounts of a line that its classes ask for, in one direction.
#[derive(Clone, Copy)]
struct Asked {
    l1: Share,
    l2: Share,
    system: BitRate,
}

impl BackendKind {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Kernel, Self::Tc, Self::TerwayQos, Self::None];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Tc => "tc",
            Self::TerwayQos => "terway-qos",
            Self::None => "none",
        }
    }

    /// True of those that Koordinator knows: koordlet takes them for what it is told itself.
    pub const fn is_koordinators(self) -> bool {
        matches!(self, Self::Tc | Self::TerwayQos)
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BackendKind {
    type Err = NotABackend;

    fn from_str(name: &str) -> Result<Self, NotABackend> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| NotABackend(name.to_owned()))
    }
}

impl ClassQos {
    /// What is so by default of LS and of BE: 30 hundredths are guaranteed, and all may be had.
    pub const DEFAULT: Self = {
        let ask = Ask {
            request: Some(Amount::Percent(30)),
            limit: Some(Amount::Percent(100)),
        };
        let (ingress, egress) = (ask, ask);
        Self {
            enable: Some(true),
            qos: NetworkQos { ingress, egress },
        }
    };

    /// Taken out.
    const OUT: Self = {
        let (request, limit) = (None, None);
        let (ingress, egress) = (Ask { request, limit }, Ask { request, limit });
        Self {
            enable: Some(false),
            qos: NetworkQos { ingress, egress },
        }
    };

    /// What it asks for, unless it is taken out.
    pub fn asks(&self) -> Option<&NetworkQos> {
        (self.enable != Some(false)).then_some(&self.qos)
    }

    /// Whether it can decide for the level that LSR and LS share: it is not taken out, and says an amount.
    pub(super) fn decides(&self) -> bool {
        self.asks().is_some_and(|it| *it != NetworkQos::default())
    }

    /// `networkQOS` as it is written.
    pub(super) fn to_object(self) -> Map<String, Value> {
        let enable = self.enable.map(|enable| ("enable", enable.into()));
        let amounts = [
            ("ingressRequest", self.qos.ingress.request),
            ("ingressLimit", self.qos.ingress.limit),
            ("egressRequest", self.qos.egress.request),
            ("egressLimit", self.qos.egress.limit),
        ];
        let amounts = amounts.into_iter();
        let amounts = amounts.filter_map(|(name, amount)| Some((name, amount?.to_value())));
        let said = enable.into_iter().chain(amounts);
        said.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl NodeSlo {
    /// Reads a `NodeSLO.spec`.
    ///
    /// # Errors
    /// Everything that cannot be followed.
    pub fn from_spec(spec: &Map<String, Value>) -> Result<Self, Vec<Mistake>> {
        let nothing = Map::new();
        let mut mistakes = Vec::new();
        let part = |name: &str, mistakes: &mut Vec<Mistake>| match field(spec, name) {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(part)) => part,
            Some(_) => {
                mistakes.push(Mistake::new(name, "is no object"));
                &nothing
            }
        };
        let resources = part("resourceQOSStrategy", &mut mistakes);
        let system = part("systemStrategy", &mut mistakes);
        let slo = Self::read(
            (resources, "resourceQOSStrategy"),
            (system, "systemStrategy"),
            &mut mistakes,
        );
        if mistakes.is_empty() {
            Ok(slo)
        } else {
            Err(mistakes)
        }
    }

    /// Reads both strategies, each at its path.
    pub(super) fn read(
        (resources, resources_path): (&Map<String, Value>, &str),
        (system, system_path): (&Map<String, Value>, &str),
        mistakes: &mut Vec<Mistake>,
    ) -> Self {
        check_keys(resources, &STRATEGY, resources_path, mistakes);
        check_keys(system, &[TOTAL], system_path, mistakes);
        let mut class = |name: &str| {
            let path = join(resources_path, name);
            read_class(
                object(field(resources, name), &path, mistakes)?,
                &path,
                mistakes,
            )
        };
        Self {
            lsr: class("lsrClass"),
            ls: class("lsClass"),
            be: class("beClass"),
            system: class("systemClass"),
            policy: read_policy(resources, resources_path, mistakes),
            total: read_total(system, system_path, mistakes),
        }
    }

    /// True where nothing is said of the network: it is Koordinator's manager that wrote it, for
    /// processors and memory.
    pub fn is_silent(&self) -> bool {
        let Self { policy, total, .. } = self;
        let classes = [self.lsr, self.ls, self.be, self.system];
        policy.is_none() && total.is_none() && !classes.into_iter().any(speaks)
    }

    /// The same with Koordinator's defaults for the levels of which nothing is said, unless nothing is
    /// said at all.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        if !self.is_silent() {
            self.fill(ClassQos::DEFAULT);
        }
        self
    }

    /// Has this said of each level of which nothing is said.
    fn fill(&mut self, class: ClassQos) {
        // Who speaks of LSR alone speaks of the level that both share.
        if !speaks(self.ls) && !self.lsr.is_some_and(|it| it.decides()) {
            self.ls = Some(class);
        }
        if !speaks(self.be) {
            self.be = Some(class);
        }
    }

    /// A `NodeSLO.spec` that says this, and nothing else. A level of which nothing is said is taken out in
    /// it, which is the same, lest [`with_defaults`](Self::with_defaults) be taken for it.
    pub fn to_spec(mut self) -> Map<String, Value> {
        self.fill(ClassQos::OUT);
        let mut resources = Map::new();
        if let Some(policy) = self.policy {
            resources.insert(
                "policies".to_owned(),
                json!({"netQOSPolicy": policy.name()}),
            );
        }
        for (name, class) in [
            ("lsrClass", self.lsr),
            ("lsClass", self.ls),
            ("beClass", self.be),
            ("systemClass", self.system),
        ] {
            let said = class.map(|it| it.to_object()).unwrap_or_default();
            if !said.is_empty() {
                resources.insert(name.to_owned(), json!({"networkQOS": said}));
            }
        }
        let mut spec = Map::new();
        if !resources.is_empty() {
            spec.insert("resourceQOSStrategy".to_owned(), resources.into());
        }
        if let Some(total) = self.total {
            let total = Amount::Rate(total).to_value();
            spec.insert(
                "systemStrategy".to_owned(),
                json!({"totalNetworkBandwidth": total}),
            );
        }
        spec
    }

    /// Who decides for the level that LSR and LS share: LS, or LSR where LS is taken out or asks for
    /// nothing.
    pub(super) fn l1(&self) -> Option<&ClassQos> {
        let ls = self.ls.as_ref().filter(|it| it.decides());
        ls.or(self.lsr.as_ref())
    }

    /// What the line is divided into.
    ///
    /// # Errors
    /// A line of this rate cannot keep the promises: each class that asks for more than it may have,
    /// or all of them together.
    pub fn shares(&self, total: BitRate) -> Result<LineShares, Vec<Mistake>> {
        let ingress = self.shares_of(Direction::Ingress, total);
        let egress = self.shares_of(Direction::Egress, total);
        let wrong = |direction: Direction, error| Mistake::new(direction.to_string(), error);
        match (ingress, egress) {
            (Ok(ingress), Ok(egress)) => Ok(LineShares { ingress, egress }),
            (ingress, egress) => Err([
                ingress.err().map(|it| wrong(Direction::Ingress, it)),
                egress.err().map(|it| wrong(Direction::Egress, it)),
            ]
            .into_iter()
            .flatten()
            .collect()),
        }
    }

    /// What of it holds for a line of which nobody knows what it carries: limits that are rates.
    pub fn open_shares(&self) -> LineShares {
        let limit = |class: Option<&ClassQos>, direction| {
            let ask = class.and_then(ClassQos::asks)?.of(direction);
            match ask.limit? {
                Amount::Rate(rate) => Some(rate).filter(|rate| rate.bits_per_second() > 0),
                Amount::Percent(_) => None,
            }
        };
        let shares = |direction| {
            let l1 = limit(self.l1(), direction);
            Shares::open(l1, limit(self.be.as_ref(), direction))
        };
        LineShares {
            ingress: shares(Direction::Ingress),
            egress: shares(Direction::Egress),
        }
    }

    /// The same in one direction. A request of the default is bounded by the limit beside it and by what
    /// the stated requests leave: latency-sensitive before best-effort.
    pub(super) fn shares_of(
        &self,
        direction: Direction,
        total: BitRate,
    ) -> Result<Shares, SharesError> {
        let asked = self.asked(direction, total);
        let is_default = |class: Option<&ClassQos>| {
            let ask = class.and_then(ClassQos::asks).map(|qos| qos.of(direction));
            ask.is_some_and(|ask| ask.request == ClassQos::DEFAULT.qos.egress.request)
        };
        // LSR and LS are one level, which is counted once.
        let classes = [
            (asked.l1, is_default(self.l1())),
            (asked.l2, is_default(self.be.as_ref())),
        ];
        let stated = classes.iter().filter(|(_, is_default)| !is_default);
        let stated = stated.map(|(share, _)| share.min.bits_per_second());
        let stated = stated.fold(asked.system.bits_per_second(), u64::saturating_add);
        let mut left = total.bits_per_second().saturating_sub(stated);
        let [l1, l2] = classes.map(|(share, is_default)| {
            if !is_default {
                return share;
            }
            let min = share.min.min(share.max).bits_per_second().min(left);
            left -= min;
            Share {
                min: BitRate::from_bits_per_second(min),
                ..share
            }
        });
        Asked { l1, l2, ..asked }.shares(total)
    }

    /// The same where every request was stated, also one that is the default's.
    pub(super) fn stated_shares_of(
        &self,
        direction: Direction,
        total: BitRate,
    ) -> Result<Shares, SharesError> {
        self.asked(direction, total).shares(total)
    }

    fn asked(&self, direction: Direction, total: BitRate) -> Asked {
        let share = |class: Option<&ClassQos>| {
            let ask = class.and_then(ClassQos::asks).map(|qos| qos.of(direction));
            let part = |amount: Option<Amount>| amount.map(|amount| amount.of(total));
            Share {
                min: part(ask.and_then(|ask| ask.request)).unwrap_or(Share::up_to(total).min),
                max: part(ask.and_then(|ask| ask.limit))
                    // As Koordinator's default has it, where nothing is said.
                    .filter(|limit| limit.bits_per_second() > 0)
                    .unwrap_or(total),
            }
        };
        Asked {
            l1: share(self.l1()),
            l2: share(self.be.as_ref()),
            system: share(self.system.as_ref()).min,
        }
    }
}

impl Asked {
    fn shares(self, total: BitRate) -> Result<Shares, SharesError> {
        let shares = Shares::try_new(total, self.l1, self.l2)?;
        // The system has what the others leave, which must be what it was promised.
        let left = shares.of(TrafficClass::System).min;
        if self.system > left {
            let others = total.bits_per_second() - left.bits_per_second();
            let sum = others.saturating_add(self.system.bits_per_second());
            return Err(SharesError::SumAboveTotal {
                sum: BitRate::from_bits_per_second(sum),
                total,
            });
        }
        Ok(shares)
    }
}

/// Whether anything is said of a class.
fn speaks(class: Option<ClassQos>) -> bool {
    class.is_some_and(|class| class != ClassQos::default())
}

fn object<'v>(
    value: Option<&'v Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Option<&'v Map<String, Value>> {
    match value? {
        Value::Null => None,
        Value::Object(object) => Some(object),
        _ => {
            mistakes.push(Mistake::new(path, "is no object"));
            None
        }
    }
}

fn read_class(
    class: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Option<ClassQos> {
    check_keys(class, &[NETWORK_QOS], path, mistakes);
    let path = join(path, NETWORK_QOS);
    let network = object(field(class, NETWORK_QOS), &path, mistakes)?;
    check_keys(network, &NETWORK_KEYS, &path, mistakes);
    let enable = match field(network, "enable") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(enable)) => Some(*enable),
        Some(other) => {
            let what = format!("{other} is neither true nor false");
            mistakes.push(Mistake::new(join(&path, "enable"), what));
            None
        }
    };
    Some(ClassQos {
        enable,
        qos: NetworkQos::read(network, &path, LEAST, mistakes),
    })
}

fn read_policy(
    resources: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Option<BackendKind> {
    let path = join(path, "policies");
    let policies = object(field(resources, "policies"), &path, mistakes)?;
    check_keys(policies, &[POLICY], &path, mistakes);
    let named = match field(policies, POLICY)? {
        Value::Null => return None,
        Value::String(name) if name.is_empty() => return None,
        Value::String(name) => name.parse().ok(),
        _ => None,
    };
    if named.is_none() {
        let what = "there are the policies tc, terway-qos, kernel and none: write one of them";
        mistakes.push(Mistake::new(join(&path, POLICY), what));
    }
    named
}

fn read_total(
    system: &Map<String, Value>,
    path: &str,
    mistakes: &mut Vec<Mistake>,
) -> Option<BitRate> {
    let read = match field(system, TOTAL)? {
        Value::Null => return None,
        Value::String(text) => total(text).map_err(|error| error.to_string()),
        // As apimachinery reads a quantity.
        Value::Number(number) => total(&number.to_string()).map_err(|error| error.to_string()),
        other => Err(format!(
            "{other} is no quantity in bits per second, like \"1000M\""
        )),
    };
    match read {
        Ok(total) => total,
        Err(what) => {
            mistakes.push(Mistake::new(join(path, TOTAL), what));
            None
        }
    }
}
