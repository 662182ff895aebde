//! What a request asks for, in the words in which RBAC speaks of it.

use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::query::Query;

/// A request, but for its body.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) target: Option<Target>,
    /// The bearer token, which names the client; else the user agent up to its version.
    pub(crate) client: String,
}

/// The objects that a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Call {
    pub(crate) fn new(parts: &Parts) -> Self {
        let header = |name: &str| {
            let value = parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            value.unwrap_or("").to_owned()
        };
        let path = parts.uri.path().to_owned();
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let user_agent = header("user-agent");
        let token = header("authorization");
        let client = match token.strip_prefix("Bearer ") {
            Some(token) => token.to_owned(),
            None => product(&user_agent).to_owned(),
        };
        Self {
            method: parts.method.clone(),
            target: Target::parse(&path),
            path,
            query,
            client,
        }
    }

    /// The verb, as RBAC has it; the method in lower case for what is not about objects.
    pub(crate) fn verb(&self) -> &'static str {
        let named = self.target.as_ref().map(|target| target.name.is_some());
        match (&self.method, named) {
            (&Method::GET, Some(_)) if self.query.flag("watch") => "watch",
            (&Method::GET, Some(false)) => "list",
            (&Method::GET | &Method::HEAD, _) => "get",
            (&Method::POST, Some(_)) => "create",
            (&Method::POST, None) => "post",
            (&Method::PUT, Some(_)) => "update",
            (&Method::PUT, None) => "put",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, Some(false)) => "deletecollection",
            (&Method::DELETE, _) => "delete",
            _ => "other",
        }
    }
}

fn product(user_agent: &str) -> &str {
    user_agent.split('/').next().unwrap_or("")
}

impl Target {
    /// Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`, as far as they are about objects.
    fn parse(path: &str) -> Option<Self> {
        let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, rest) = match &parts[..] {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // Under a namespace, but for what is of the namespace itself.
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let owned = |text: &str| text.to_owned();
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        Some(Self {
            group: owned(group),
            plural: owned(plural),
            namespace: namespace.map(owned),
            name: name.map(owned),
            subresource: subresource.map(owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn paths_are_read_as_what_they_name() {
        let read = |path: &str| {
            let target = Target::parse(path)?;
            Some([
                target.group,
                target.namespace.unwrap_or_default(),
                target.plural,
                target.name.unwrap_or_default(),
                target.subresource.unwrap_or_default(),
            ])
        };
        for (path, expected) in [
            ("/api/v1/pods", ["", "", "pods", "", ""]),
            ("/api/v1/namespaces", ["", "", "namespaces", "", ""]),
            ("/api/v1/namespaces/a", ["", "", "namespaces", "a", ""]),
            (
                "/api/v1/namespaces/a/status",
                ["", "", "namespaces", "a", "status"],
            ),
            ("/api/v1/namespaces/a/pods", ["", "a", "pods", "", ""]),
            (
                "/apis/k8s.ovn.org/v1alpha1/namespaces/a/networkqoses/b/status",
                ["k8s.ovn.org", "a", "networkqoses", "b", "status"],
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                [
                    "rbac.authorization.k8s.io",
                    "",
                    "clusterroles",
                    "system:node",
                    "",
                ],
            ),
        ] {
            assert_eq!(read(path).unwrap(), expected);
        }
        for path in ["/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version"] {
            assert_eq!(read(path), None, "{path}");
        }
    }
}
