//! The skeleton of a plugin: everything between `main` and what the plugin is about.
//!
//! ```no_run
//! use netqos_cni::{CniError, CniResult, Plugin, Request};
//!
//! struct Noop;
//!
//! impl Plugin for Noop {
//!     fn about(&self) -> String {
//!         "CNI plugin noop v1".to_owned()
//!     }
//!     fn add(&self, request: &Request) -> Result<CniResult, CniError> {
//!         let previous = request.config.prev_result()?;
//!         Ok(previous.unwrap_or_else(|| CniResult::new(request.config.version)))
//!     }
//!     fn del(&self, _: &Request) -> Result<(), CniError> {
//!         Ok(())
//!     }
//!     fn check(&self, _: &Request) -> Result<(), CniError> {
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     netqos_cni::plugin::run(&Noop)
//! }
//! ```
//!
//! The checks, their order, codes and texts are those of the Go skeleton (containernetworking/cni
//! v1.3, pkg/skel), with one difference: that `CNI_NETNS` is not the plugin's own namespace is
//! checked before the plugin acts and not after.

mod args;
mod config;
mod environment;
mod execute;
mod request;
#[cfg(test)]
mod tests;

use std::io;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

pub use args::CniArgs;
pub use config::NetConf;
pub use environment::Command;
pub use execute::execute;
pub use request::{GcAttachment, GcRequest, Request, StatusRequest};

use crate::{CniError, CniResult, CniVersion, json};

/// What a plugin does when it is asked to. Every request has passed the skeleton's checks.
pub trait Plugin {
    /// What the plugin is, printed when somebody starts it by hand.
    fn about(&self) -> String;

    /// The versions of the specification that the plugin speaks, in rising order.
    fn supported_versions(&self) -> &[CniVersion] {
        &CniVersion::SUPPORTED
    }

    /// ADD: joins the container to the network. The result is printed in the configuration's
    /// version, whatever its own.
    fn add(&self, request: &Request) -> Result<CniResult, CniError>;

    /// DEL: undoes ADD. Must succeed when there is nothing left to undo; the namespace may be gone.
    fn del(&self, request: &Request) -> Result<(), CniError>;

    /// CHECK: says what is not as ADD left it.
    fn check(&self, request: &Request) -> Result<(), CniError>;

    /// GC: removes what belongs to no living attachment of the network. By default, nothing.
    fn gc(&self, _request: &GcRequest) -> Result<(), CniError> {
        Ok(())
    }

    /// STATUS: says whether ADD could be served now. By default, yes.
    fn status(&self, _request: &StatusRequest) -> Result<(), CniError> {
        Ok(())
    }
}

/// Runs a plugin in this process' environment: the whole of a plugin's `main`.
///
/// A panic inside the plugin becomes the error object with code 999 on standard output, also when
/// the build aborts on panic.
pub fn run(plugin: &impl Plugin) -> ExitCode {
    std::panic::set_hook(Box::new(report_panic));
    let env = |name: &str| {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    // Unlocked, so that the panic hook can print from whatever thread it is called in.
    let code = execute(
        plugin,
        &env,
        io::stdin(),
        &mut io::stdout(),
        &mut io::stderr(),
    );
    ExitCode::from(code)
}

/// Ends the process as a failed plugin ends.
fn report_panic(info: &PanicHookInfo<'_>) {
    let what = info.payload_as_str().unwrap_or("no message");
    let error = match info.location() {
        Some(place) => CniError::internal(format_args!("panic in the plugin: {what} ({place})")),
        None => CniError::internal(format_args!("panic in the plugin: {what}")),
    };
    // Nobody is left to tell that standard output is closed.
    let _ = json::write_pretty(io::stdout(), &error);
    std::process::exit(1);
}
