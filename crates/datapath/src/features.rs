//! What this kernel has of what netqos uses: found by using it, in a network namespace of its own.

use std::fmt;

use netqos_bpf::Pins;
#[cfg(feature = "rules")]
use netqos_bpf::{
    Scratch, can_tell_tcx,
    classes::{Classes, probe_stamp},
    rules::Rules,
};
#[cfg(feature = "rules")]
use netqos_netlink::filter::BpfRedirect;
use netqos_netlink::filter::{Bpf, Place, Redirect};
use netqos_netlink::link::Link;
#[cfg(feature = "rules")]
use netqos_netlink::qdisc::Htb;
use netqos_netlink::qdisc::{Clsact, FqCodel, PfifoFast, Tbf};
use netqos_netlink::{Handle, Namespace, Nft, Socket};
use serde::Serialize;

use crate::error::Doing;
#[cfg(feature = "rules")]
use crate::rules::RuleDatapath;
use crate::{Error, Paths, Result, backstop, programs};
#[cfg(feature = "rules")]
use crate::{bypass, kernel};

/// Something that a kernel may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// The token bucket filter, without which there is no limit.
    Tbf,
    /// Bands, into which flows are ranked.
    PfifoFast,
    /// Hooks for filters.
    Clsact,
    /// The ranking program, loaded.
    Programs,
    /// Filters that run it.
    BpfFilter,
    /// tcx hooks that can run it.
    Tcx,
    /// Intermediate functional block devices: `"egress": "ifb"`, and pods without a veth.
    Ifb,
    /// The filter and the action that redirect to one.
    Redirect,
    /// nftables' forward at the ingress hook, which catches what others keep from the redirect.
    Backstop,
    /// Pairs of virtual links, in which packets of a rule with a rate wait.
    Veth,
    /// The programs of rules, loaded.
    Rules,
    /// What tells the backends of a Service apart.
    Backends,
    /// The programs of classes, loaded.
    Classes,
    /// The filter that redirects the ingress of an uplink to its ifb.
    ClassRedirect,
    /// The hierarchical token bucket, by which a line is divided among classes.
    Htb,
    /// Queues in which the flows of a class take turns.
    FqCodel,
    /// Counters of the packets that a foreign program hands to a pod's end, past the queue at the host's end.
    RedirectCounter,
}

/// Whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It was used, and works.
    Works,
    /// It does not; the kernel's words.
    Lacking(String),
    /// It was not tried, since it cannot work without this other feature, which is lacking.
    Needs(Feature),
}

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features(Vec<(Feature, Support)>);

/// How limits are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// By TBF, with flows ranked by a program on clsact.
    RankedByClsact,
    /// By TBF, with flows ranked by a program on tcx.
    RankedByTcx,
    /// By TBF alone.
    Plain,
    /// Not at all.
    None,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RankedByClsact => "limits are held by tbf, flows ranked by eBPF on clsact",
            Self::RankedByTcx => "limits are held by tbf, flows ranked by eBPF on tcx",
            Self::Plain => {
                "limits are held by tbf alone: exact, but small flows wait behind large ones"
            }
            Self::None => "limits cannot be held on this kernel",
        })
    }
}

impl Feature {
    /// What has to be done to have it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Tbf => "load the module sch_tbf, or use a kernel with CONFIG_NET_SCH_TBF",
            Self::PfifoFast => "use a kernel with pfifo_fast (CONFIG_NET_SCHED)",
            Self::Clsact => {
                "load the module sch_ingress, or use a kernel with CONFIG_NET_SCH_INGRESS"
            }
            Self::Programs => {
                "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT, and mount bpf at /sys/fs/bpf"
            }
            Self::BpfFilter => "load the module cls_bpf, or use a kernel with CONFIG_NET_CLS_BPF",
            Self::Tcx => "use a kernel from 6.6 on; clsact serves as well",
            Self::Ifb => "load the module ifb, or use a kernel with CONFIG_IFB",
            Self::Redirect => {
                "load the modules cls_u32 and act_mirred, or use a kernel with CONFIG_NET_CLS_U32 and CONFIG_NET_ACT_MIRRED"
            }
            Self::Backstop => {
                "load the modules nf_tables and nft_fwd_netdev, or use a kernel from 5.7 on with CONFIG_NF_TABLES_NETDEV and CONFIG_NFT_FWD_NETDEV; without it, a foreign program that ends the chain of the ingress hook lifts a limit that is held by an ifb"
            }
            Self::Veth => {
                "load the module veth, or use a kernel with CONFIG_VETH; without it, a rule with a rate drops excess packets instead of queueing them"
            }
            Self::Rules => "use a kernel from 5.10 on with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT",
            Self::Backends => {
                "use a kernel from 5.18 on with CONFIG_DEBUG_INFO_BTF, and load the module nf_conntrack; without it, rules count a connection to a Service whose backends they tell apart as one to the Service's own address"
            }
            Self::Classes => {
                "use a kernel from 5.10 on with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT, or the backend tc"
            }
            Self::ClassRedirect => {
                "load the modules cls_bpf and act_mirred, or use a kernel with CONFIG_NET_CLS_BPF and CONFIG_NET_ACT_MIRRED, or the backend tc"
            }
            Self::Htb => "load the module sch_htb, or use a kernel with CONFIG_NET_SCH_HTB",
            Self::RedirectCounter => {
                "use a kernel from 6.7, 6.6.4 or 6.1.120 on; without it, netqos does not see that a program of another CNI sends packets past the queue of an ingress limit (bpf_redirect_peer)"
            }
            Self::FqCodel => {
                "load the module sch_fq_codel, or use a kernel with CONFIG_NET_SCH_FQ_CODEL; without it, flows of a class share one queue, first in, first out"
            }
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tbf => "qdisc tbf",
            Self::PfifoFast => "qdisc pfifo_fast",
            Self::Clsact => "qdisc clsact",
            Self::Programs => "eBPF programs",
            Self::BpfFilter => "filter bpf",
            Self::Tcx => "tcx hooks",
            Self::Ifb => "link ifb",
            Self::Redirect => "filter u32 with action mirred",
            Self::Backstop => "nftables fwd at ingress",
            Self::Veth => "link veth",
            Self::Rules => "programs of rules",
            Self::Backends => "backends of Services",
            Self::Classes => "programs of classes",
            Self::ClassRedirect => "filter bpf with action mirred",
            Self::Htb => "qdisc htb",
            Self::FqCodel => "qdisc fq_codel",
            Self::RedirectCounter => "counters of redirected packets",
        })
    }
}

/// Tries whether the kernel makes a fq_codel, in a network namespace that is gone afterwards.
///
/// # Errors
/// It does not, or the caller may not make a network namespace.
pub fn try_fq_codel() -> Result<()> {
    let namespace = Namespace::scratch().doing("make a network namespace")?;
    let mut socket = Socket::open_in(&namespace).doing("open netlink socket")?;
    let lo = socket.link_by_name("lo").doing("find lo")?;
    let flows = FqCodel {
        target: 5_000,
        interval: 100_000,
        packets: 1_000,
        memory: 1 << 20,
    };
    let made = socket.put_qdisc(&lo, Handle::ROOT, Handle::new(1, 0), &flows);
    made.doing("make a queue")
}

impl Features {
    /// Returns true if rules can be enforced: their programs load, and no hook is known to be lacking. Hooks are tried with
    /// the programs of limits; without those it is not known.
    pub fn can_enforce_rules(&self) -> bool {
        let may_work = |feature| !matches!(self.support(feature), Some(Support::Lacking(_)));
        let has_clsact = self.works(Feature::Clsact) && may_work(Feature::BpfFilter);
        self.works(Feature::Rules) && (has_clsact || may_work(Feature::Tcx))
    }

    /// Tries everything, in a network namespace that is gone afterwards. The programs are loaded
    /// and stay pinned, if they can be; where the kernel has refused them before, it is not asked
    /// again, as it would not be by an ADD.
    ///
    /// # Errors
    /// The caller may not make a network namespace.
    pub fn probe(paths: &Paths) -> Result<Self> {
        Self::probe_with(programs::ensure(paths))
    }

    /// The same, and the kernel is asked again. What it says is what an ADD goes by from then on.
    ///
    /// # Errors
    /// The caller may not make a network namespace.
    pub fn probe_anew(paths: &Paths) -> Result<Self> {
        Self::probe_with(programs::try_again(paths))
    }

    fn probe_with(pins: netqos_bpf::Result<Pins>) -> Result<Self> {
        let scratch = Namespace::scratch().doing("make a network namespace")?;
        let mut socket = Socket::open_in(&scratch).doing("open netlink socket")?;
        let lo = socket.link_by_name("lo").doing("find lo")?;
        let mut features = Self::default();

        let tbf = Tbf {
            rate: 125_000,
            burst: 10_000,
            largest: 5_000,
            limit: 10_000,
        };
        features.probe_feature(Feature::Tbf, &[], || {
            socket.put_qdisc(&lo, Handle::ROOT, Handle::new(1, 0), &tbf)
        });
        features.probe_feature(Feature::PfifoFast, &[Feature::Tbf], || {
            socket.put_qdisc(&lo, Handle::new(1, 1), Handle::new(2, 0), &PfifoFast)
        });
        features.probe_feature(Feature::Clsact, &[], || {
            socket.add_qdisc(&lo, Handle::CLSACT, Handle::new(0xFFFF, 0), &Clsact)
        });
        features.probe_feature(Feature::Programs, &[], || pins.as_ref().map(drop));
        let programs = pins.as_ref().map(Pins::programs);
        features.probe_feature(
            Feature::BpfFilter,
            &[Feature::Clsact, Feature::Programs],
            || -> std::result::Result<(), String> {
                let rank = programs.map_err(|why| why.to_string())?.rank();
                let filter = Bpf {
                    program: rank.map_err(|why| why.to_string())?,
                    name: "probe",
                    argument: 0,
                };
                let place = Place {
                    hook: Handle::CLSACT_EGRESS,
                    preference: 1,
                    handle: 1,
                };
                socket
                    .put_filter(&lo, place, &filter)
                    .map_err(|why| why.to_string())
            },
        );
        features.probe_feature(
            Feature::Tcx,
            &[Feature::Programs],
            || -> std::result::Result<(), String> {
                let programs = programs.map_err(|why| why.to_string())?;
                let _inside = scratch.enter().map_err(|why| why.to_string())?;
                programs.probe_tcx().map_err(|why| why.to_string())
            },
        );
        let ifb = socket.add_ifb("probe", 1500, 1000);
        features.probe_feature(Feature::Ifb, &[], || ifb.as_ref().map(drop));
        let target: &Link = ifb.as_ref().unwrap_or(&lo);
        features.probe_feature(Feature::Redirect, &[Feature::Clsact], || {
            let place = Place {
                hook: Handle::CLSACT_INGRESS,
                preference: 1,
                handle: 0,
            };
            socket.put_filter(&lo, place, &Redirect { to: target.index })
        });
        features.probe_feature(Feature::Backstop, &[], || match Nft::open_in(&scratch) {
            Ok(mut nft) => backstop::probe(&mut nft, &lo, target),
            Err(why) => Err(why.to_string()),
        });
        features.probe_feature(Feature::Veth, &[], || {
            socket.add_veth_pair("probe-a", "probe-b", 1500)
        });
        Ok(features)
    }

    /// Tries what rules need besides. Where they are not loaded, it loads them for the moment, which takes
    /// some 100 MB of kernel memory.
    #[cfg(feature = "rules")]
    pub fn with_rules(self, loaded: Option<&RuleDatapath>) -> Self {
        if let Some(loaded) = loaded {
            return self.note_rules(Ok(loaded.programs()));
        }
        let scratch = Scratch::new();
        let scratch = scratch.as_ref().map_err(ToString::to_string);
        let rules = scratch
            .and_then(|scratch| Rules::ensure(&scratch.path()).map_err(|why| why.to_string()));
        self.note_rules(rules.as_ref())
    }

    #[cfg(feature = "rules")]
    fn note_rules(mut self, rules: std::result::Result<&Rules, &String>) -> Self {
        self.probe_feature(Feature::Rules, &[], || rules);
        // What holds the program of rules on a hook of tcx.
        if self.works(Feature::Tcx)
            && let Ok(rules) = rules
            && let Err(why) = rules.program_tcx(1)
        {
            self.set(Feature::Tcx, Support::Lacking(format!("rules: {why}")));
        }
        self.probe_feature(Feature::Backends, &[Feature::Rules], || {
            let why = rules.ok().and_then(Rules::deaf);
            why.map_or(Ok(()), Err)
        });
        self
    }

    /// Returns true if the kernel counts packets that bypass an ingress limit. Where that could not be tried, its version
    /// decides.
    #[cfg(feature = "rules")]
    pub fn counts_redirected(&self) -> bool {
        match self.support(Feature::RedirectCounter) {
            Some(Support::Works) => true,
            Some(Support::Lacking(why)) if why == bypass::NOT_COUNTED => false,
            _ => kernel::is_at_least(6, 7),
        }
    }

    /// Tries what shows that an ingress limit is bypassed.
    #[cfg(feature = "rules")]
    pub fn with_redirect_counter(mut self) -> Self {
        let needed = [Feature::Clsact, Feature::BpfFilter, Feature::Veth];
        self.probe_feature(Feature::RedirectCounter, &needed, bypass::try_counter);
        self
    }

    /// Tries what classes need besides, of which nothing stays behind.
    ///
    /// # Errors
    /// The caller may not make a network namespace.
    #[cfg(feature = "rules")]
    pub fn with_classes(mut self) -> Result<Self> {
        let namespace = Namespace::scratch().doing("make a network namespace")?;
        let mut socket = Socket::open_in(&namespace).doing("open netlink socket")?;
        let lo = socket.link_by_name("lo").doing("find lo")?;
        let htb = Htb { default: 1 };
        self.probe_feature(Feature::Htb, &[], || {
            socket.put_qdisc(&lo, Handle::ROOT, Handle::new(1, 0), &htb)
        });
        self.probe_feature(Feature::FqCodel, &[], try_fq_codel);
        let classes = Scratch::new().and_then(|scratch| Classes::ensure(&scratch.path()));
        self.probe_feature(Feature::Classes, &[], || match &classes {
            // Without tcx the pods' filters are what has been loaded, and older kernels refuse this.
            Ok(_) if can_tell_tcx() => probe_stamp().map_err(|why| why.to_string()),
            Ok(_) => Ok(()),
            Err(why) => Err(why.to_string()),
        });
        let needed = [Feature::Clsact, Feature::Ifb, Feature::Classes];
        self.probe_feature(
            Feature::ClassRedirect,
            &needed,
            || -> std::result::Result<(), String> {
                let words = |why: netqos_netlink::Error| why.to_string();
                let classes = classes.as_ref().map_err(ToString::to_string)?;
                let ifb = socket.add_ifb("probe", 1500, 1000).map_err(words)?;
                let clsact = Handle::new(0xFFFF, 0);
                let made = socket.add_qdisc(&lo, Handle::CLSACT, clsact, &Clsact);
                made.map_err(words)?;
                let filter = BpfRedirect {
                    program: classes.ingress().map_err(|why| why.to_string())?,
                    name: "probe",
                    to: ifb.index,
                };
                let place = Place {
                    hook: Handle::CLSACT_INGRESS,
                    preference: 1,
                    handle: 1,
                };
                socket.put_filter(&lo, place, &filter).map_err(words)
            },
        );
        Ok(self)
    }

    /// Tries a feature, unless one that it needs is lacking.
    fn probe_feature<T, E: fmt::Display>(
        &mut self,
        feature: Feature,
        needs: &[Feature],
        attempt: impl FnOnce() -> std::result::Result<T, E>,
    ) {
        let lacking = needs.iter().find(|needed| !self.works(**needed));
        let support = match lacking {
            Some(lacking) => Support::Needs(*lacking),
            None => match attempt() {
                Ok(_) => Support::Works,
                Err(why) => Support::Lacking(why.to_string()),
            },
        };
        self.0.push((feature, support));
    }

    /// Replaces a finding.
    #[cfg(feature = "rules")]
    fn set(&mut self, feature: Feature, support: Support) {
        let found = self.0.iter_mut().find(|(it, _)| *it == feature);
        if let Some((_, found)) = found {
            *found = support;
        }
    }

    /// All findings, in the order in which they matter.
    pub fn iter(&self) -> impl Iterator<Item = (Feature, &Support)> {
        self.0.iter().map(|(feature, support)| (*feature, support))
    }

    /// Whether a feature was tried, and works.
    pub fn works(&self, feature: Feature) -> bool {
        self.support(feature) == Some(&Support::Works)
    }

    fn support(&self, feature: Feature) -> Option<&Support> {
        let found = self.iter().find(|(it, _)| *it == feature);
        found.map(|(_, support)| support)
    }

    /// How a limit would be held that is asked for now, on a link on which nobody else is: an ADD
    /// that is left the choice goes to tcx only where others are on it, or have clsact's place.
    pub fn mode(&self) -> Mode {
        use Feature::{BpfFilter, Clsact, PfifoFast, Programs, Tbf};
        let works = |all: &[Feature]| all.iter().all(|feature| self.works(*feature));
        if !works(&[Tbf]) {
            Mode::None
        } else if works(&[PfifoFast, Programs, Clsact, BpfFilter]) {
            Mode::RankedByClsact
        } else {
            Mode::Plain
        }
    }

    /// Fails when one of these is missing.
    ///
    /// # Errors
    /// The first that is missing, or what it needs, where that is.
    pub fn require(&self, wanted: &[Feature]) -> Result<()> {
        let missing = wanted.iter().find(|feature| !self.works(**feature));
        missing.map_or(Ok(()), |feature| Err(self.missing(*feature)))
    }

    /// The error of a feature that does not work.
    fn missing(&self, feature: Feature) -> Error {
        let why = match self.iter().find(|(it, _)| *it == feature) {
            Some((_, Support::Needs(needed))) => return self.missing(*needed),
            Some((_, Support::Lacking(why))) => why.clone(),
            Some((_, Support::Works)) | None => "it was not tried".to_owned(),
        };
        Error::Lacking { feature, why }
    }
}

#[cfg(test)]
mod tests;
