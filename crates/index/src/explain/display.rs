//! An explanation in words, for somebody who was woken up.

use std::fmt;

use super::*;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.query)?;
        if let Some(refusal) = &self.refusal {
            return writeln!(f, "  {refusal}");
        }
        match &self.outcome {
            Some(outcome) => writeln!(f, "  => {outcome}")?,
            None => writeln!(f, "  => that depends on the address that it comes to:")?,
        }
        if let Some(limit) = &self.limit {
            write!(f, "  => all that the pod sends is held to {}", limit.rate)?;
            match &self.bounded_by {
                Some(quota) => writeln!(f, ", which NetworkQoSQuota {quota} allows")?,
                None => writeln!(f)?,
            }
        }
        let shadows_agree = shadows_agree(&self.cases);
        if self.outcome.is_some() && !shadows_agree {
            writeln!(
                f,
                "  => the rule in shadow mode that counts it depends on the address that it comes to"
            )?;
        }
        // Where the backends agree the virtual address decides nothing.
        let decided = self.outcome.is_some() && shadows_agree;
        let telling = self.cases.iter();
        for case in telling.filter(|case| !(decided && case.is_virtual())) {
            case.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> ", self.from)?;
        match &self.to {
            To::Pod(name) => write!(f, "{name}")?,
            To::Address(address) => write!(f, "{address}")?,
        }
        match (self.protocol, self.port) {
            (Some(protocol), Some(port)) => write!(f, ", {protocol}/{port}")?,
            (Some(protocol), None) => write!(f, ", {protocol}, port not known")?,
            (None, _) => f.write_str(", a protocol without ports")?,
        }
        write!(f, ", on network {}", self.network)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPod(pod) => write!(f, "there is no pod {pod}"),
            Self::NotOfThisNode(pod) => write!(
                f,
                "{pod} is no pod of this node, which knows only addresses of others: ask for one \
                 of its addresses"
            ),
            Self::HostNetwork(pod) => write!(
                f,
                "{pod} uses the node's own network (hostNetwork): no NetworkQoS is for it"
            ),
            Self::Finished(pod) => write!(f, "{pod} has ended: it sends nothing"),
            Self::NotOnNetwork { pod, on } => {
                write!(f, "{pod} is not on this network, but on {}", list(on))
            }
            Self::NoAddress(pod) => write!(
                f,
                "{pod} has no address on this network that anybody knows of"
            ),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet {
            destination, port, ..
        } = self.packet;
        match port {
            Some(port) => write!(f, "  to {}", std::net::SocketAddr::new(destination, port))?,
            None => write!(f, "  to {destination}")?,
        }
        match &self.via {
            Via::Address => {}
            Via::Backend(service) => write!(f, ", behind Service {service}")?,
            Via::VirtualAddress(service) => write!(
                f,
                ", the address of Service {service}, until a backend is chosen"
            )?,
        }
        if !self.pods.is_empty() {
            write!(f, ", pod {}", list(&self.pods))?;
        }
        match &self.slices {
            None if self.pods.is_empty() => f.write_str(", no pod on this network")?,
            None => {}
            Some(slices) if slices.is_empty() => f.write_str(", in no peer slice")?,
            Some(slices) => write!(f, ", in peer slice {}", list(slices))?,
        }
        writeln!(f, ": {}", self.outcome)?;
        if self.rules.is_empty() {
            return writeln!(f, "    no NetworkQoS is in the sender's namespace");
        }
        for considered in &self.rules {
            writeln!(f, "    {considered}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.winner {
            None => f.write_str("no rule is for it: neither marked nor held to a rate")?,
            Some(winner) => {
                write!(f, "{winner} decides: ")?;
                action(f, self.dscp, self.bandwidth)?;
            }
        }
        match &self.shadow {
            Some(shadow) => write!(f, " ({shadow} would decide, but is in shadow mode)"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Considered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match &self.standing {
            Standing::Wins => "wins",
            Standing::WouldWin => "shadow",
            Standing::Lost { .. } => "lost",
            Standing::NoMatch(_) => "no",
            Standing::LeftOut => "left out",
        };
        write!(f, "{word:<8} {}", self.policy)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        write!(f, " priority {}: ", self.priority)?;
        match &self.standing {
            Standing::Wins => action(f, self.dscp, self.bandwidth),
            Standing::WouldWin => {
                f.write_str("would: ")?;
                action(f, self.dscp, self.bandwidth)
            }
            Standing::Lost { to, because } => match because {
                LostBecause::LowerPriority => write!(f, "{to} has a higher priority"),
                LostBecause::EarlierInObject => {
                    write!(f, "{to} matches too, and a later rule of an object wins")
                }
                LostBecause::LaterByName => {
                    write!(f, "{to} has the same priority and a smaller name")
                }
            },
            Standing::NoMatch(mismatch) => mismatch.fmt(f),
            Standing::LeftOut => write!(
                f,
                "more than {} rules are for the pod, and this one is beyond",
                Chain::MAX_RULES
            ),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(selector) => write!(f, "is for pods {selector}, which the sender is not"),
            Self::Quota(excesses) => write!(f, "is not in force: {}", list(excesses)),
            Self::Network(on) if on.is_empty() => {
                f.write_str("is in force on no network: what it refers to does not exist")
            }
            Self::Network(on) => write!(f, "is in force on network {}", list(on)),
            Self::Destination(to) => write!(f, "is for packets to {}", list(to)),
            Self::Protocol(ports) => write!(f, "is for protocols {}", list(ports)),
            Self::Port(ports) => write!(f, "is for ports {}", list(ports)),
        }
    }
}

fn action(
    f: &mut fmt::Formatter<'_>,
    dscp: Option<Dscp>,
    bandwidth: Option<Bandwidth>,
) -> fmt::Result {
    match (dscp, bandwidth) {
        (None, None) => f.write_str("neither marked nor held to a rate"),
        (Some(dscp), None) => write!(f, "DSCP {dscp}"),
        (None, Some(bandwidth)) => write!(f, "held to {}", bandwidth.rate),
        (Some(dscp), Some(bandwidth)) => write!(f, "DSCP {dscp}, held to {}", bandwidth.rate),
    }
}

fn list(of: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let words: Vec<String> = of.into_iter().map(|word| word.to_string()).collect();
    words.join("; ")
}
