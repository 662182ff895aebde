//! From a request to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::Body;
use super::accept::Answers;
use super::body::Broken;
use super::faulty::meet;
use super::watch::watch;
use crate::access;
use crate::call::{Call, Target};
use crate::delete::{Deleted, Options, delete};
use crate::discovery;
use crate::draft::{Draft, UnknownFields};
use crate::list::{list, select, selector};
use crate::patch::Patch;
use crate::pods;
use crate::record::Entry;
use crate::resource::Resource;
use crate::shared::Shared;
use crate::state::{Committed, key};
use crate::status::{Refusal, success};
use crate::store::Stored;
use crate::view::View;
use crate::webhooks::{self, Question};
use crate::write::{Content, draft};

/// An answer that is no refusal.
pub(crate) struct Reply {
    code: u16,
    media: &'static str,
    body: Body,
    warnings: Vec<String>,
}

impl Reply {
    pub(crate) fn new(code: u16, body: impl Into<Body>) -> Self {
        Self {
            code,
            media: "application/json",
            body: body.into(),
            warnings: Vec::new(),
        }
    }

    fn json(code: u16, json: &Value) -> Self {
        Self::new(code, Bytes::from(json.to_string()))
    }
}

/// How often a change is made anew when others are faster.
const ATTEMPTS: usize = 16;

impl Answers for Shared {
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Broken>> + Send {
        answer(self, request)
    }
}

/// Answers a request.
///
/// # Errors
/// The connection is to be closed.
async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let call = Call::new(&parts);
    let entry = shared.record.begin(&call);
    let mut faulty = meet(&shared.faults, &call).await?;
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let reply = match faulty.refusal.take() {
        Some(refusal) => Err(refusal),
        None => dispatch(&shared, &call, &body, &entry).await,
    };
    let mut response = respond(reply, &entry);
    faulty.date(&mut response);
    Ok(response)
}

pub(crate) fn respond(reply: Result<Reply, Refusal>, entry: &Entry) -> Response<Body> {
    let after = match &reply {
        Err(refusal) => refusal.details.get("retryAfterSeconds").cloned(),
        Ok(_) => None,
    };
    let reply = reply.unwrap_or_else(|refusal| Reply::json(refusal.code, &refusal.status()));
    if let Body::Whole(Some(bytes)) = &reply.body {
        entry.sent(bytes.len());
    }
    entry.answered(reply.code);
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.code).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(reply.media));
    if let Some(seconds) = after.as_ref().and_then(Value::as_u64) {
        headers.insert("retry-after", seconds.into());
    }
    for warning in reply.warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // By bytes: beyond ASCII it is UTF-8.
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append("warning", value);
        }
    }
    response
}

async fn dispatch(
    shared: &Arc<Shared>,
    call: &Call,
    body: &Bytes,
    entry: &Arc<Entry>,
) -> Result<Reply, Refusal> {
    if ["/healthz", "/livez", "/readyz"].contains(&call.path.as_str()) {
        return Ok(Reply::new(200, Bytes::from_static(b"ok")));
    }
    let Some(target) = &call.target else {
        let answer = discovery::answer(&shared.read().registry, call)?;
        let mut reply = Reply::json(200, &answer);
        if answer["kind"] == "APIGroupDiscoveryList" {
            reply.media = discovery::AGGREGATED;
        }
        return Ok(reply);
    };
    let Target {
        group,
        version,
        plural,
        ..
    } = target;
    if access::is_review(call, target) {
        let review = access::review(shared, call, &parse(call, body)?);
        return Ok(Reply::json(201, &review));
    }
    let resource = shared.read().registry.get(group, version, plural);
    let resource = resource.ok_or_else(Refusal::no_such_path)?;
    if target.namespace.is_some() && !resource.namespaced {
        return Err(Refusal::no_such_path());
    }
    let object = || parse(call, body);
    match target.subresource.as_deref() {
        Some("binding") if resource.is("", "pods") && call.method == Method::POST => {
            let (key, binding) = (named(target), object()?);
            shared.change(|state| pods::bind(state, &resource, &key, &binding))?;
            return Ok(Reply::json(201, &success(&resource, &key.name, None)));
        }
        Some("eviction") if resource.is("", "pods") && call.method == Method::POST => {
            let (key, eviction) = (named(target), object()?);
            shared.change(|state| pods::evict(state, &resource, &key, &eviction, call))?;
            return Ok(Reply::json(201, &success(&resource, &key.name, None)));
        }
        None => {}
        Some("status") if resource.status && call.method != Method::POST => {}
        Some(_) => return Err(Refusal::no_such_path()),
    }
    if resource.namespaced && target.name.is_some() && target.namespace.is_none() {
        return Err(Refusal::no_such_path());
    }
    match (&call.method, &target.name) {
        (&Method::GET, _) if call.verb() == "watch" => {
            watch(shared, call, target, &resource, entry)
        }
        (&Method::GET | &Method::HEAD, Some(name)) => {
            let view = View::of(call)?;
            let state = shared.read();
            let stored = state.store.get(&resource.storage, &named(target));
            let stored = stored.ok_or_else(|| Refusal::not_found(&resource, name))?;
            Ok(Reply::new(200, view.object(&resource, stored)))
        }
        (&Method::GET, None) => {
            let list = list(&mut shared.read(), call, target, &resource)?;
            Ok(Reply::new(200, list))
        }
        (&Method::POST, None) if target.namespace.is_some() || !resource.namespaced => {
            let content = Content::Create(object()?);
            write(shared, call, target, &resource, &content).await
        }
        (&Method::PUT, Some(_)) => {
            let content = Content::Update(object()?);
            write(shared, call, target, &resource, &content).await
        }
        (&Method::PATCH, Some(_)) => {
            let content = Content::Patch(patch(call, body, &resource)?);
            write(shared, call, target, &resource, &content).await
        }
        (&Method::DELETE, Some(name)) => {
            let options = Options::new(&parse_if_any(call, body)?, call);
            let key = named(target);
            let warnings = ask_of_deletion(shared, call, &resource, &key, &options).await?;
            let deleted = shared.change(|state| delete(state, &resource, &key, &options))?;
            let mut reply = reply_deleted(&resource, name, &deleted);
            reply.warnings = warnings;
            Ok(reply)
        }
        (&Method::DELETE, None) => {
            let options = Options::new(&parse_if_any(call, body)?, call);
            delete_all(shared, call, target, &resource, &options).await
        }
        _ => Err(Refusal::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )),
    }
}

fn named(target: &Target) -> crate::store::Key {
    let namespace = target.namespace.as_deref().unwrap_or("");
    key(namespace, target.name.as_deref().unwrap_or(""))
}

/// Makes a change, anew when another one came first.
async fn write(
    shared: &Arc<Shared>,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    content: &Content,
) -> Result<Reply, Refusal> {
    let view = View::of(call)?;
    for _ in 0..ATTEMPTS {
        let mut draft = draft(&shared.read(), call, target, resource, content)?;
        draft.prepare()?;
        let mut warnings = warnings(&draft);
        if let Some(changed) = webhooks::mutate(shared, &asked(call, &draft), &mut warnings).await?
        {
            draft.put_changed(changed)?;
        }
        draft.finish()?;
        webhooks::validate(shared, &asked(call, &draft), &mut warnings).await?;
        let code = if draft.old.is_some() { 200 } else { 201 };
        let mut reply = if call.query.get("dryRun").is_some() {
            Reply::json(code, &draft.new)
        } else if draft.is_empty() {
            let Some(old) = &draft.old else { continue };
            Reply::new(code, view.object(resource, old))
        } else {
            match shared.change(|state| state.commit(&draft)) {
                Committed::Stored(stored) | Committed::Gone(stored) => {
                    Reply::new(code, view.object(resource, &stored))
                }
                Committed::Overtaken => continue,
            }
        };
        reply.warnings = warnings;
        return Ok(reply);
    }
    Err(Refusal::stale(
        resource,
        target.name.as_deref().unwrap_or(""),
    ))
}

/// What webhooks are asked of a write.
fn asked(call: &Call, draft: &Draft) -> Question {
    Question {
        resource: draft.resource.clone(),
        key: draft.key.clone(),
        subresource: draft.subresource.clone(),
        operation: match draft.old {
            None => "CREATE",
            Some(_) => "UPDATE",
        },
        object: draft.new.clone(),
        old: draft.old_value().clone(),
        user: call.user(),
        dry_run: call.query.get("dryRun").is_some(),
    }
}

/// Asks webhooks whether an object may be deleted. One that is not there is refused by whoever
/// deletes it.
async fn ask_of_deletion(
    shared: &Shared,
    call: &Call,
    resource: &Arc<Resource>,
    key: &crate::store::Key,
    options: &Options,
) -> Result<Vec<String>, Refusal> {
    let stored = shared.read().store.get(&resource.storage, key).cloned();
    let mut warnings = Vec::new();
    if let Some(stored) = stored {
        let question = Question {
            resource: resource.clone(),
            key: key.clone(),
            subresource: None,
            operation: "DELETE",
            object: Value::Null,
            old: stored.value(resource),
            user: call.user(),
            dry_run: options.dry_run,
        };
        webhooks::validate(shared, &question, &mut warnings).await?;
    }
    Ok(warnings)
}

fn warnings(draft: &Draft) -> Vec<String> {
    match draft.unknown_fields {
        UnknownFields::Warn => draft
            .dropped
            .iter()
            .map(|path| format!("unknown field \"{path}\""))
            .collect(),
        _ => Vec::new(),
    }
}

fn reply_deleted(resource: &Resource, name: &str, deleted: &Deleted) -> Reply {
    let (Deleted::Gone(stored) | Deleted::Waiting(stored)) = deleted;
    let whole = ["pods", "services", "serviceaccounts", "namespaces"];
    let shown = resource.group.is_empty() && whole.contains(&resource.plural.as_str());
    match deleted {
        Deleted::Gone(_) if !shown => {
            let object = stored.value(resource);
            let uid = object["metadata"]["uid"].as_str();
            Reply::json(200, &success(resource, name, uid))
        }
        _ => Reply::new(200, View::Whole.object(resource, stored)),
    }
}

async fn delete_all(
    shared: &Shared,
    call: &Call,
    target: &Target,
    resource: &Arc<Resource>,
    options: &Options,
) -> Result<Reply, Refusal> {
    let view = View::of(call)?;
    let selector = selector(call, resource)?;
    let objects = select(&shared.read(), resource, target, &selector);
    for object in &objects {
        ask_of_deletion(shared, call, resource, &object.key, options).await?;
    }
    let (revision, objects) = shared.change(|state| {
        for object in &objects {
            // Who is gone meanwhile, or does not fit the preconditions, is left out.
            delete(state, resource, &object.key, options).ok();
        }
        (state.store.revision(), objects)
    });
    let metadata = json!({"resourceVersion": revision.to_string()});
    let objects = objects.iter().map(|stored: &Arc<Stored>| &**stored);
    Ok(Reply::new(200, view.list(resource, metadata, objects)))
}

/// A body, by its media type.
fn parse(call: &Call, body: &Bytes) -> Result<Value, Refusal> {
    let media = call.content_type.split(';').next().unwrap_or("").trim();
    match media {
        ""
        | "application/json"
        | "application/merge-patch+json"
        | "application/json-patch+json"
        | "application/strategic-merge-patch+json" => serde_json::from_slice(body)
            .map_err(|why| Refusal::bad_request(format!("the body is no JSON: {why}"))),
        "application/yaml" | "application/apply-patch+yaml" => {
            let text = std::str::from_utf8(body).unwrap_or("");
            let document = netqos_k8s::documents(text).into_iter().next();
            let value = document.map(|document| document.value);
            value
                .unwrap_or_else(|| Err("it is empty".to_owned()))
                .map_err(|why| Refusal::bad_request(format!("the body is no YAML: {why}")))
        }
        other => {
            let message = format!("the body of the request was in an unknown format: {other}");
            Err(Refusal::new(415, "UnsupportedMediaType", message))
        }
    }
}

fn parse_if_any(call: &Call, body: &Bytes) -> Result<Value, Refusal> {
    match body.is_empty() {
        true => Ok(Value::Null),
        false => parse(call, body),
    }
}

fn patch(call: &Call, body: &Bytes, resource: &Resource) -> Result<Patch, Refusal> {
    let media = call.content_type.split(';').next().unwrap_or("").trim();
    let content = parse(call, body)?;
    match media {
        "application/merge-patch+json" => Ok(Patch::Merge(content)),
        "application/json-patch+json" => Ok(Patch::Json(content)),
        "application/apply-patch+yaml" => Ok(Patch::Apply(content)),
        "application/strategic-merge-patch+json" if !resource.is_custom() => {
            Ok(Patch::Strategic(content))
        }
        other => {
            let message = format!("the body of the request was in an unknown format: {other}");
            Err(Refusal::new(415, "UnsupportedMediaType", message))
        }
    }
}
