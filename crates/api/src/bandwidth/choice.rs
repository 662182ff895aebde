//! The choices that are netqos' own: where egress is shaped, and how programs are attached.

use super::BandwidthConfigError;

/// What the plugin finds in its environment; an empty variable is as good as none.
///
/// The configuration wins: it is written for this network, while the environment is the whole
/// runtime's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment<'a> {
    /// The value of [`EgressWay::VARIABLE`].
    pub egress: Option<&'a str>,
    /// The value of [`HookChoice::VARIABLE`].
    pub hook: Option<&'a str>,
}

/// Where the traffic from the pod is shaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EgressWay {
    /// `pod`: on the pod's own interface, inside its network namespace.
    #[default]
    Pod,
    /// `ifb`: on an ifb device of the host's to which the pod's traffic is redirected, as the
    /// well-known plugin does.
    Ifb,
}

/// How the eBPF programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HookChoice {
    /// `auto`: what is quickest, which on the CNI path is clsact.
    #[default]
    Auto,
    /// `clsact`: as filters of a clsact qdisc.
    Clsact,
    /// `tcx`: as tcx links (kernel 6.6 and later).
    Tcx,
    /// `none`: not at all; the limit holds, but flows are not ranked.
    None,
}

impl EgressWay {
    /// The variable of the environment that says it where the configuration does not.
    pub const VARIABLE: &str = "NETQOS_EGRESS";

    pub(super) fn choose(
        config: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<Self, BandwidthConfigError> {
        choose(
            [("egress", config), (Self::VARIABLE, environment.egress)],
            &[("pod", Self::Pod), ("ifb", Self::Ifb)],
            "\"pod\" and \"ifb\"",
        )
    }
}

impl HookChoice {
    /// The variable of the environment that says it where the configuration does not.
    pub const VARIABLE: &str = "NETQOS_HOOK";

    pub(super) fn choose(
        config: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<Self, BandwidthConfigError> {
        choose(
            [("hook", config), (Self::VARIABLE, environment.hook)],
            &[
                ("auto", Self::Auto),
                ("clsact", Self::Clsact),
                ("tcx", Self::Tcx),
                ("none", Self::None),
            ],
            "\"auto\", \"clsact\", \"tcx\" and \"none\"",
        )
    }
}

/// What the first of `places` that says anything says.
fn choose<T: Copy + Default>(
    places: [(&str, Option<&str>); 2],
    names: &[(&str, T)],
    known: &'static str,
) -> Result<T, BandwidthConfigError> {
    let said = places
        .into_iter()
        .find_map(|(key, value)| Some((key, value.filter(|value| !value.is_empty())?)));
    let Some((key, value)) = said else {
        return Ok(T::default());
    };
    names
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, choice)| *choice)
        .ok_or_else(|| BandwidthConfigError::UnknownValue {
            key: key.to_owned(),
            value: value.to_owned(),
            known,
        })
}
