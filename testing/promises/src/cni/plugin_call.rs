//! One call of a plugin, whatever the runtime says.

use std::cell::Cell;

use netqos_cni::plugin::{Command, execute};
use netqos_cni::{
    CniError, CniResult, CniVersion, GcRequest, Interface, Plugin, Request, StatusRequest,
};

/// The variables, in the order of their lines.
const VARIABLES: [&str; 7] = [
    "CNI_COMMAND",
    "CNI_CONTAINERID",
    "CNI_NETNS",
    "CNI_IFNAME",
    "CNI_ARGS",
    "CNI_PATH",
    "CNI_NETNS_OVERRIDE",
];

/// A call ends with 0 and what its command answers, or with 1 and one error object that has a code
/// and a message; only what passes every check reaches the plugin.
///
/// The text is seven variables, one a line, an empty line for one that is not set; what follows is
/// standard input.
pub fn plugin_call(text: &str) {
    let lines: Vec<&str> = text.splitn(VARIABLES.len() + 1, '\n').collect();
    let env = |name: &str| {
        let index = VARIABLES.iter().position(|known| *known == name)?;
        let value = lines.get(index).filter(|value| !value.is_empty())?;
        Some((*value).to_owned())
    };
    let stdin = lines.get(VARIABLES.len()).copied().unwrap_or_default();
    let plugin = Adds::default();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = execute(&plugin, &env, stdin.as_bytes(), &mut stdout, &mut stderr);

    let printed = String::from_utf8(stdout).expect("text on standard output");
    let command = env("CNI_COMMAND").unwrap_or_default();
    // A GC without a list says that it removes nothing.
    if command != "GC" {
        assert_eq!(stderr.is_empty(), !command.is_empty(), "{stderr:?}");
    }
    match (code, command.as_str()) {
        (0, "ADD") => {
            let result = CniResult::parse(printed.as_bytes(), CniVersion::CURRENT);
            let result = result.unwrap_or_else(|error| panic!("{error}: {printed}"));
            let last = result.interfaces.last().map(|link| link.name.as_str());
            assert_eq!(last, Some("added0"), "{printed}");
            assert_eq!(Some(result.version()), plugin.version.get());
        }
        (0, "VERSION") => {
            let answer = serde_json::from_str::<serde_json::Value>(&printed);
            assert!(answer.is_ok_and(|answer| answer["supportedVersions"].is_array()));
        }
        (0, _) => assert_eq!(printed, "", "{command}"),
        (1, _) => {
            let error: CniError = serde_json::from_str(&printed).expect("one error object");
            assert!(error.code.0 != 0 && !error.msg.is_empty(), "{printed}");
        }
        (code, _) => panic!("{code}: {printed}"),
    }
}

/// Adds an interface to what there is; checks that it is asked nothing that it can't be.
#[derive(Default)]
struct Adds {
    version: Cell<Option<CniVersion>>,
}

impl Adds {
    fn accept(&self, request: &Request, command: Command) {
        assert_eq!(request.command, command);
        assert!(CniVersion::SUPPORTED.contains(&request.config.version));
        assert_eq!(request.attachment.network(), request.config.name);
        let tag = request.attachment.tag();
        assert_eq!(tag.parse(), Ok(tag));
        assert!(request.netns.is_some() || command == Command::Del);
        // As often as there are pairs, whatever they look like.
        let pairs = request.args.pairs().count();
        assert!(pairs <= request.args.text().split(';').count());
        self.version.set(Some(request.config.version));
    }
}

impl Plugin for Adds {
    fn about(&self) -> String {
        "CNI plugin adds".to_owned()
    }
    fn add(&self, request: &Request) -> Result<CniResult, CniError> {
        self.accept(request, Command::Add);
        let previous = request.config.prev_result()?;
        let mut result = previous.unwrap_or_else(|| CniResult::new(CniVersion::CURRENT));
        result.interfaces.push(Interface::on_host("added0", ""));
        Ok(result)
    }
    fn del(&self, request: &Request) -> Result<(), CniError> {
        self.accept(request, Command::Del);
        Ok(())
    }
    fn check(&self, request: &Request) -> Result<(), CniError> {
        self.accept(request, Command::Check);
        assert!(request.config.version >= CniVersion::V0_4_0);
        Ok(())
    }
    fn gc(&self, request: &GcRequest) -> Result<(), CniError> {
        assert!(request.config.version >= CniVersion::V1_1_0);
        let named = |text: &str| !text.is_empty();
        assert!(
            request
                .valid
                .iter()
                .all(|alive| named(&alive.container_id) && named(&alive.ifname))
        );
        Ok(())
    }
    fn status(&self, request: &StatusRequest) -> Result<(), CniError> {
        assert!(request.config.version >= CniVersion::V1_1_0);
        Ok(())
    }
}
