//! The skeleton's order of checks, and what it prints.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use netqos_core::Attachment;
use serde::Serialize;

use super::config::Document;
use super::environment::Variables;
use super::{Command, GcRequest, NetConf, Plugin, Request, StatusRequest};
use crate::{CniError, CniResult, CniVersion, ErrorCode, json, names};

/// Most inputs are smaller, in bytes.
const USUAL: usize = 4096;

/// Where the kernel shows a thread its own network namespace.
const OWN_NETNS: &str = "/proc/thread-self/ns/net";

/// What goes to standard output.
enum Answer {
    /// Nobody asked anything: the about text goes to standard error.
    About,
    /// All is well, and that is all.
    Nothing,
    /// The versions that the plugin speaks.
    Versions,
    /// The result of ADD.
    Result(Box<CniResult>),
}

/// The answer to VERSION.
#[derive(Serialize)]
struct Versions<'a> {
    #[serde(rename = "cniVersion")]
    current: CniVersion,
    #[serde(rename = "supportedVersions")]
    supported: &'a [CniVersion],
}

/// Runs a plugin in an environment of the caller's making, and says the exit code. [`run`] is the
/// same in that of the process.
///
/// [`run`]: super::run
pub fn execute(
    plugin: &impl Plugin,
    env: &impl Fn(&str) -> Option<String>,
    stdin: impl Read,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> u8 {
    let written = match answer(plugin, env, stdin, stderr) {
        Ok(answer) => print(plugin, answer, stdout, stderr).map(|()| 0),
        Err(error) => json::write_pretty(&mut *stdout, &error).map(|()| 1),
    };
    written.unwrap_or_else(|error| {
        // Nobody is left to tell when this can't be written either.
        let _ = writeln!(stderr, "cannot write to standard output: {error}");
        1
    })
}

fn print(
    plugin: &impl Plugin,
    answer: Answer,
    stdout: &mut impl Write,
    stderr: &mut impl Write,
) -> io::Result<()> {
    match answer {
        Answer::Nothing => Ok(()),
        Answer::Result(result) => {
            // In one piece, so that a reader never sees half of it.
            let mut text = Vec::new();
            result.write(&mut text)?;
            stdout.write_all(&text)?;
            stdout.flush()
        }
        Answer::Versions => {
            let mut text = serde_json::to_vec(&Versions {
                current: CniVersion::CURRENT,
                supported: plugin.supported_versions(),
            })?;
            text.push(b'\n');
            stdout.write_all(&text)?;
            stdout.flush()
        }
        Answer::About => {
            let versions: Vec<_> = plugin
                .supported_versions()
                .iter()
                .map(ToString::to_string)
                .collect();
            writeln!(stderr, "{}", plugin.about())?;
            let versions = versions.join(", ");
            writeln!(stderr, "CNI protocol versions supported: {versions}")
        }
    }
}

fn answer(
    plugin: &impl Plugin,
    env: &impl Fn(&str) -> Option<String>,
    mut stdin: impl Read,
    stderr: &mut impl Write,
) -> Result<Answer, CniError> {
    if env("CNI_COMMAND").is_none_or(|command| command.is_empty()) {
        return Ok(Answer::About);
    }
    let variables = Variables::read(env)?;
    let command = Command::parse(&variables.command);
    if command == Some(Command::Version) {
        return Ok(Answer::Versions);
    }

    let mut text = Vec::with_capacity(USUAL);
    stdin
        .read_to_end(&mut text)
        .map_err(|error| CniError::io(format!("error reading from stdin: {error}")))?;
    let document = Document::decode(&text)?;
    if !matches!(command, Some(Command::Gc | Command::Status)) {
        names::check_container_id(&variables.container_id)?;
        names::check_interface_name(&variables.ifname)?;
    }
    let Some(command) = command else {
        return Err(CniError::environment(format!(
            "unknown CNI_COMMAND: {}",
            variables.command
        )));
    };
    let version = check_version(plugin.supported_versions(), command, &document.version()?)?;

    // Before anything that the plugin may do: the original says it when all is done.
    if matches!(command, Command::Add | Command::Del)
        && !variables.netns_override
        && is_own_netns(&variables.netns)
    {
        return Err(CniError::new(
            ErrorCode::INVALID_NETNS,
            "plugin's netns and netns from CNI_NETNS should not be the same",
        ));
    }

    let config = NetConf::read(document, version)?;
    match command {
        Command::Add => {
            let result = plugin.add(&request(command, variables, config)?)?;
            result
                .into_version(version)
                .map(|result| Answer::Result(Box::new(result)))
                .map_err(CniError::internal)
        }
        Command::Del => {
            plugin.del(&request(command, variables, config)?)?;
            Ok(Answer::Nothing)
        }
        Command::Check => {
            plugin.check(&request(command, variables, config)?)?;
            Ok(Answer::Nothing)
        }
        Command::Gc => {
            match GcRequest::new(config, variables.path)? {
                Some(request) => plugin.gc(&request)?,
                None => {
                    let words = "GC without a list of valid attachments: nothing is removed";
                    let _ = writeln!(stderr, "{words}");
                }
            }
            Ok(Answer::Nothing)
        }
        Command::Status => {
            plugin.status(&StatusRequest {
                path: variables.path,
                config,
            })?;
            Ok(Answer::Nothing)
        }
        Command::Version => Ok(Answer::Versions),
    }
}

/// Decides whether the plugin can serve the command in the configuration's version. The version
/// must be written exactly as the plugin would write it.
fn check_version(
    supported: &[CniVersion],
    command: Command,
    text: &str,
) -> Result<CniVersion, CniError> {
    let incompatible = |msg: String| CniError::new(ErrorCode::INCOMPATIBLE_VERSION, msg);
    let since = match command {
        Command::Check => Some(CniVersion::V0_4_0),
        Command::Gc | Command::Status => Some(CniVersion::V1_1_0),
        Command::Add | Command::Del | Command::Version => None,
    };
    if let Some(since) = since {
        let version: CniVersion = text
            .parse()
            .map_err(|error| CniError::decoding(format!("{error}")))?;
        if version < since {
            return Err(incompatible(format!(
                "config version does not allow {command}"
            )));
        }
        if supported.iter().all(|known| *known < version) {
            return Err(incompatible(format!(
                "plugin version does not allow {command}"
            )));
        }
    }
    supported
        .iter()
        .copied()
        .find(|version| version.to_string() == text)
        .ok_or_else(|| {
            let supported: Vec<_> = supported.iter().map(|v| format!("\"{v}\"")).collect();
            let supported = supported.join(" ");
            incompatible("incompatible CNI versions".to_owned())
                .with_details(format!("config is {text:?}, plugin supports [{supported}]"))
        })
}

/// True when the path is the namespace that this process is in. One that can't be looked at is
/// not: DEL must work when the namespace has gone.
fn is_own_netns(path: &str) -> bool {
    let identity = |path: &str| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    match (identity(path), identity(OWN_NETNS)) {
        (Ok(given), Ok(own)) => given == own,
        _ => false,
    }
}

fn request(command: Command, variables: Variables, config: NetConf) -> Result<Request, CniError> {
    let attachment = Attachment::try_new(&config.name, &variables.container_id, &variables.ifname)
        .map_err(|error| CniError::environment(error.to_string()))?;
    Ok(Request {
        command,
        attachment,
        netns: (!variables.netns.is_empty()).then(|| PathBuf::from(variables.netns)),
        args: variables.args,
        path: variables.path,
        config,
    })
}
