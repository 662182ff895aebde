//! The `bandwidth` plugin: from a CNI request to limits in the kernel.
//!
//! It stands in for the well-known plugin of the same name: configuration, texts of errors and
//! results are that one's. What it does differently is in `docs/bandwidth-plugin.md`.

use std::env;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

use netqos_api::{BandwidthConfig, BandwidthConfigError, EgressWay, Environment, HookChoice};
use netqos_cni::{
    CniError, CniResult, ErrorCode, GcRequest, Interface, NetConf, Plugin, Request, StatusRequest,
};
use netqos_core::plan::Ends;
use netqos_core::{Attachment, Direction, Limits};
use netqos_datapath::{
    AttachedPod, AttachedPods, Error, Feature, Features, HostLinks, LimitDatapath, Mode, Paths,
    Shaped,
};

/// Prints a line to standard error, and ignores errors: a runtime that has closed it, or whose disk is full, is to
/// get its answer. The macro of std panics.
macro_rules! eprintln {
    ($($words:tt)*) => {{ let _ = writeln!(io::stderr(), $($words)*); }};
}

use crate::links;

/// The plugin.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth;

impl Plugin for Bandwidth {
    fn about(&self) -> String {
        format!("CNI bandwidth plugin netqos v{}", netqos_version::VERSION)
    }

    fn add(&self, request: &Request) -> Result<CniResult, CniError> {
        let config = parse(&request.config)?;
        let previous = request.config.prev_result()?;
        warn(&config);
        let Some(mut result) = previous else {
            return Err(internal("must be called as chained plugin"));
        };
        let netns = netns(request)?;
        let host_links = listed(&result, &config.limits)?;
        let mut datapath = open(config.bpffs.as_deref())?;
        let applied = datapath
            .apply(&netqos_datapath::Request {
                attachment: &request.attachment,
                netns,
                ends: None,
                host_links: HostLinks::Listed(&host_links),
                limits: config.limits,
                egress: config.egress,
                hook: config.hook,
                is_running: false,
            })
            .map_err(error)?;
        for queue in &applied.queues {
            if let Some(why) = &queue.unranked_because {
                eprintln!(
                    "netqos: {}: flows are not ranked: {why}",
                    request.attachment
                );
            }
            if let Some(why) = &queue.no_backstop_because {
                eprintln!(
                    "netqos: {}: a foreign program that ends the chain of the ingress hook lifts the {} limit: {why}",
                    request.attachment, queue.direction
                );
            }
        }
        if let Some(why) = &applied.no_queue_in_pod_because {
            eprintln!(
                "netqos: {}: programs of others bypass the ingress limit, and it can have no queue in the pod: {why}",
                request.attachment
            );
        }
        // Where there is nothing to limit, rules may still be for it.
        let ends = applied.ends;
        let ends = ends.or_else(|| links::ends(netns, request.ifname()));
        remember(request, netns, ends, &result, config.bpffs.as_deref());
        result
            .interfaces
            .extend(applied.queues.iter().filter(is_reported).map(reported));
        Ok(result)
    }

    fn del(&self, request: &Request) -> Result<(), CniError> {
        // A configuration that cannot be read must not keep anything from being cleaned up.
        let config = parse(&request.config).ok();
        let bpffs = config.as_ref().and_then(|config| config.bpffs.clone());
        let limits = config.map(|config| config.limits).unwrap_or_default();
        let previous = request.config.prev_result().ok().flatten();
        let host_links = previous.map(|result| host_links(&result));
        if let Err(why) = attached(bpffs.as_deref()).remove(&request.attachment) {
            stays(&request.attachment, &why);
        }
        open(bpffs.as_deref())?
            .teardown(
                &request.attachment,
                request.netns.as_deref(),
                host_links
                    .as_deref()
                    .map_or(HostLinks::Unknown, HostLinks::Listed),
                &limits,
            )
            .map_err(error)
    }

    fn check(&self, request: &Request) -> Result<(), CniError> {
        let config = parse(&request.config)?;
        let Some(previous) = request.config.prev_result()? else {
            return Err(internal("must be called as a chained plugin"));
        };
        let host_links = listed(&previous, &config.limits)?;
        open(config.bpffs.as_deref())?
            .check(&netqos_datapath::Request {
                attachment: &request.attachment,
                netns: netns(request)?,
                ends: None,
                host_links: HostLinks::Listed(&host_links),
                limits: config.limits,
                egress: config.egress,
                hook: config.hook,
                is_running: false,
            })
            .map_err(error)
    }

    fn gc(&self, request: &GcRequest) -> Result<(), CniError> {
        let name = &request.config.name;
        // What is not a name was never an attachment of ours.
        let alive: Vec<Attachment> = request
            .valid
            .iter()
            .filter_map(|one| Attachment::try_new(name, &one.container_id, &one.ifname).ok())
            .collect();
        let bpffs = parse(&request.config).ok().and_then(|config| config.bpffs);
        if let Err(why) = attached(bpffs.as_deref()).collect(name, &alive) {
            stays(name, &why);
        }
        open(bpffs.as_deref())?.collect(name, &alive).map_err(error)
    }

    fn status(&self, request: &StatusRequest) -> Result<(), CniError> {
        let config = parse(&request.config)?;
        let paths = paths(config.bpffs.as_deref());
        let features =
            Features::probe(&paths).map_err(|why| CniError::not_available(explain(&why)))?;
        let mut needed = vec![Feature::Tbf];
        if config.egress == EgressWay::Ifb {
            needed.extend([Feature::Ifb, Feature::Redirect]);
        }
        match config.hook {
            HookChoice::Auto | HookChoice::None => {}
            HookChoice::Clsact => {
                needed.extend([
                    Feature::PfifoFast,
                    Feature::Programs,
                    Feature::Clsact,
                    Feature::BpfFilter,
                ]);
            }
            HookChoice::Tcx => {
                needed.extend([Feature::PfifoFast, Feature::Programs, Feature::Tcx]);
            }
        }
        features
            .require(&needed)
            .map_err(|why| CniError::not_available(why.to_string()))?;
        // On standard output STATUS has nothing to say when all is well.
        let mode = match config.hook {
            HookChoice::Auto | HookChoice::Clsact => features.mode(),
            HookChoice::Tcx => Mode::RankedByTcx,
            HookChoice::None => Mode::Plain,
        };
        eprintln!("netqos: {mode}");
        let ranks = [Feature::PfifoFast, Feature::Programs];
        if let (HookChoice::Auto, Err(why)) = (config.hook, features.require(&ranks)) {
            eprintln!("netqos: flows are not ranked: {why}");
        }
        if let Err(why) = features.require(&[Feature::Ifb, Feature::Redirect]) {
            eprintln!("netqos: interfaces without an end on the host have no ingress limit: {why}");
        } else if let Err(why) = features.require(&[Feature::Backstop]) {
            eprintln!("netqos: {why}");
        }
        Ok(())
    }
}

fn parse(config: &NetConf) -> Result<BandwidthConfig, CniError> {
    let variable = |name| env::var(name).ok();
    let (egress, hook) = (
        variable(EgressWay::VARIABLE),
        variable(HookChoice::VARIABLE),
    );
    let environment = Environment {
        egress: egress.as_deref(),
        hook: hook.as_deref(),
    };
    BandwidthConfig::parse(&config.raw, environment).map_err(|problem| {
        let code = match problem {
            BandwidthConfigError::Type { .. } => ErrorCode::DECODING_FAILURE,
            _ => ErrorCode::INVALID_NETWORK_CONFIG,
        };
        CniError::new(code, problem.to_string())
    })
}

fn warn(config: &BandwidthConfig) {
    for warning in &config.warnings {
        eprintln!("netqos: {warning}");
    }
}

/// The folders that the configuration names, else the environment, else the usual ones.
fn paths(bpffs: Option<&str>) -> Paths {
    Paths::from_variables(|name| match (name, bpffs) {
        (Paths::BPFFS_VARIABLE, Some(path)) => Some(path.to_owned()),
        _ => env::var(name).ok(),
    })
}

fn open(bpffs: Option<&str>) -> Result<LimitDatapath, CniError> {
    LimitDatapath::open(paths(bpffs)).map_err(error)
}

fn attached(bpffs: Option<&str>) -> AttachedPods {
    AttachedPods::new(paths(bpffs).pods())
}

/// Writes down which pod it is, for the agent, where the runtime says so. Its limits do not depend on it:
/// what cannot be written is said.
fn remember(
    request: &Request,
    netns: &Path,
    ends: Option<Ends>,
    previous: &CniResult,
    bpffs: Option<&str>,
) {
    let argument = |name| request.args.get(name).filter(|value| !value.is_empty());
    let (Some(namespace), Some(name)) = (argument("K8S_POD_NAMESPACE"), argument("K8S_POD_NAME"))
    else {
        return;
    };
    let is_its = |index: usize| {
        let interface = previous.interfaces.get(index);
        interface.is_none_or(|it| it.name == request.ifname())
    };
    // An address that names no interface is of the one that was asked for.
    let ips = previous.ips.iter();
    let ips = ips.filter(|ip| ip.interface.is_none_or(is_its));
    let runtime = request.config.raw.get("runtimeConfig");
    let pod = AttachedPod {
        attachment: request.attachment.clone(),
        netns: netns.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: argument("K8S_POD_UID").map(str::to_owned),
        ends,
        addresses: ips.map(|ip| ip.address.address()).collect(),
        has_annotations: runtime.is_some_and(|it| it.get("bandwidth").is_some()),
    };
    if let Err(why) = attached(bpffs).write(&pod) {
        eprintln!(
            "netqos: {}: the agent is not told which pod it is: {why}",
            request.attachment
        );
    }
}

/// Says that what was written down of pods is still there. Nobody goes by it once the namespace is gone, and
/// no pod is to stay for it.
fn stays(of: &impl Display, why: &Error) {
    eprintln!("netqos: {of}: which pod it was stays written down: {why}");
}

fn netns(request: &Request) -> Result<&Path, CniError> {
    let missing = || CniError::environment("required env variables [CNI_NETNS] missing");
    request.netns.as_deref().ok_or_else(missing)
}

/// The interfaces that the plugins before made on the host.
fn host_links(result: &CniResult) -> Vec<String> {
    let on_host = |interface: &&Interface| interface.sandbox.is_empty();
    result
        .interfaces
        .iter()
        .filter(on_host)
        .map(|interface| interface.name.clone())
        .collect()
}

/// The same; a result without any interface is wrong when there is something to limit.
fn listed(result: &CniResult, limits: &Limits) -> Result<Vec<String>, CniError> {
    if result.interfaces.is_empty() && !limits.is_unlimited() {
        return Err(internal("no interfaces provided"));
    }
    Ok(host_links(result))
}

/// The ifb of the original's way stands in its result; what is inside of the pod does not.
fn is_reported(queue: &&Shaped) -> bool {
    queue.is_ifb && queue.direction == Direction::Egress
}

fn reported(queue: &Shaped) -> Interface {
    Interface {
        name: queue.link.clone(),
        mac: queue.mac.clone(),
        ..Interface::default()
    }
}

fn internal(text: &str) -> CniError {
    CniError::new(ErrorCode::INTERNAL, text)
}

fn error(error: Error) -> CniError {
    let code = match error {
        Error::OpenNamespace { .. } => ErrorCode::INVALID_NETNS,
        Error::Record { .. } => ErrorCode::IO_FAILURE,
        _ => ErrorCode::INTERNAL,
    };
    CniError::new(code, explain(&error))
}

/// The error, and what to do when it is one that an administrator can mend.
fn explain(error: &Error) -> String {
    if error.is_permission() {
        return format!(
            "{error}: the plugin needs root, or CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_BPF"
        );
    }
    if error.is_unsupported() {
        return format!("{error}: the kernel lacks it; `netqos check` says what, and what to do");
    }
    error.to_string()
}
