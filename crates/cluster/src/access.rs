//! What an API server is, and what one may do there.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimeParser;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};

use crate::ReadError;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
const REVIEWS: &str = "selfsubjectaccessreviews";

/// The version of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// 1.
    pub major: u32,
    /// 33, say.
    pub minor: u32,
    /// As it says it: `v1.33.2+k3s1`.
    pub text: String,
}

/// Something that somebody may do, or may not.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// What: `create`.
    pub verb: &'a str,
    /// The group of the resource; empty for the core.
    pub group: &'a str,
    /// With what: its plural name.
    pub resource: &'a str,
    /// In which namespace; `None`: in all, or the resource has none.
    pub namespace: Option<&'a str>,
}

/// The version of the API server.
///
/// # Errors
/// It does not answer, or not within 30 s.
pub async fn version(client: &Client) -> Result<Version, ReadError> {
    let info = in_time("/version", client.apiserver_version()).await?;
    // Some say `33+`.
    let number = |text: &str| {
        let digits = text.trim_end_matches(|it: char| !it.is_ascii_digit());
        digits.parse().unwrap_or_default()
    };
    Ok(Version {
        major: number(&info.major),
        minor: number(&info.minor),
        text: info.git_version,
    })
}

/// The time by the API server's clock, to the second, as the header `Date` of an answer has it; `None`: it
/// has none. What replicas write into the cluster is to be compared with this, and not with the clock of
/// whoever asks, which may be off.
///
/// # Errors
/// It does not answer, or not within 30 s.
pub async fn now(client: &Client) -> Result<Option<Timestamp>, ReadError> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = http::Uri::from_static("/version");
    let answer = in_time("/version", client.send(request)).await?;
    let date = answer.headers().get("date").and_then(|it| it.to_str().ok());
    let parser = DateTimeParser::new();
    Ok(date.and_then(|it| parser.parse_timestamp(it).ok()))
}

/// Whether whoever asks may do that. Nothing is done.
///
/// # Errors
/// The server does not answer, or not within 30 s, or does not know who asks.
pub async fn may(client: &Client, access: &Access<'_>) -> Result<bool, ReadError> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(access.verb.to_owned()),
                group: Some(access.group.to_owned()),
                resource: Some(access.resource.to_owned()),
                namespace: access.namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let parameters = PostParams::default();
    let review = in_time(REVIEWS, api.create(&parameters, &review)).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

async fn in_time<T>(
    what: &str,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ReadError> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map_err(|why| ReadError::of(what, &why)),
        Err(_) => Err(ReadError::Failed {
            plural: what.to_owned(),
            why: format!("no answer in {} s", PATIENCE.as_secs()),
        }),
    }
}
