//! Lists, whole and page by page.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::call::{Call, Target};
use crate::resource::Resource;
use crate::selectors::Selector;
use crate::state::State;
use crate::status::Refusal;
use crate::store::{Key, Stored};
use crate::view::View;

/// Lists of which more pages may be asked for: each page is of the state of the first.
#[derive(Default)]
pub(crate) struct Snapshots {
    lists: BTreeMap<u64, Vec<Arc<Stored>>>,
    order: VecDeque<u64>,
    next: u64,
}

/// How many lists are kept for further pages.
const KEPT: usize = 64;

impl Snapshots {
    fn keep(&mut self, list: Vec<Arc<Stored>>) -> u64 {
        self.next += 1;
        self.lists.insert(self.next, list);
        self.order.push_back(self.next);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.lists.remove(&oldest);
        }
        self.next
    }
}

/// The objects that a selector means, in the order of their names.
pub(crate) fn select(
    state: &State,
    resource: &Resource,
    target: &Target,
    selector: &Selector,
) -> Vec<Arc<Stored>> {
    let objects = state
        .store
        .objects(&resource.storage, target.namespace.as_deref());
    objects
        .filter(|object| is_named(object, target) && selector.matches(object))
        .cloned()
        .collect()
}

/// Whether an object is one that the path means.
pub(crate) fn is_named(object: &Stored, target: &Target) -> bool {
    let same = |wanted: &Option<String>, is: &Key, part: fn(&Key) -> &String| {
        wanted.as_ref().is_none_or(|wanted| wanted == part(is))
    };
    same(&target.namespace, &object.key, |key| &key.namespace)
        && same(&target.name, &object.key, |key| &key.name)
}

/// A list, or a page of one.
pub(crate) fn list(
    state: &mut State,
    call: &Call,
    target: &Target,
    resource: &Resource,
) -> Result<Bytes, Refusal> {
    let view = View::of(call)?;
    let query = &call.query;
    let limit = query.number("limit").filter(|limit| *limit > 0);
    // A list of any state comes from the watch cache, which has no pages.
    let is_cached = query.get("continue").is_none() && query.get("resourceVersion") == Some("0");
    let limit = limit.filter(|_| !is_cached);
    let (id, revision, from, objects) = match query.get("continue") {
        Some(token) => {
            let Token { id, revision, from } = Token::read(token)?;
            let list = state.snapshots.lists.get(&id).cloned().ok_or_else(|| {
                Refusal::expired(
                    "The provided continue parameter is too old to display a consistent list \
                     result. You can start a new list without the continue parameter.",
                )
            })?;
            (Some(id), revision, from, list)
        }
        None => {
            check_revision(state, call)?;
            let selector = selector(call, resource)?;
            let objects = select(state, resource, target, &selector);
            (None, state.store.revision(), 0, objects)
        }
    };
    let rest = objects.get(from..).unwrap_or_default();
    let page = match limit {
        Some(limit) => rest.get(..limit as usize).unwrap_or(rest),
        None => rest,
    };
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    let remaining = rest.len() - page.len();
    if remaining > 0 {
        let id = id.unwrap_or_else(|| state.snapshots.keep(objects.clone()));
        let from = from + page.len();
        metadata["continue"] = Token { id, revision, from }.write().into();
        let selects = query.get("labelSelector").or(query.get("fieldSelector"));
        if selects.is_none() {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    Ok(view.list(resource, metadata, page.iter().map(|stored| &**stored)))
}

/// The selectors of a request.
pub(crate) fn selector(call: &Call, resource: &Resource) -> Result<Selector, Refusal> {
    let query = &call.query;
    let (labels, fields) = (query.text("labelSelector"), query.text("fieldSelector"));
    Selector::parse(labels, fields, resource)
}

/// Refuses what asks for a state of the future, or for exactly a past one, which is not kept.
fn check_revision(state: &State, call: &Call) -> Result<(), Refusal> {
    let Some(text) = call.query.get("resourceVersion") else {
        return Ok(());
    };
    let asked: u64 = text
        .parse()
        .map_err(|_| Refusal::bad_request(format!("invalid resource version {text:?}")))?;
    let present = state.store.revision();
    if asked > present {
        let message = format!("Timeout: Too large resource version: {asked}, current: {present}");
        let cause = json!([{
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }]);
        return Err(Refusal::new(504, "Timeout", message)
            .with("causes", cause)
            .with("retryAfterSeconds", 1.into()));
    }
    if call.query.get("resourceVersionMatch") == Some("Exact") && asked < present {
        let message =
            format!("The provided resource version is too old to display: {asked} ({present})");
        return Err(Refusal::expired(message));
    }
    Ok(())
}

/// Where the next page begins.
struct Token {
    id: u64,
    revision: u64,
    from: usize,
}

impl Token {
    fn write(&self) -> String {
        let json = json!({"id": self.id, "rv": self.revision, "from": self.from});
        URL_SAFE_NO_PAD.encode(json.to_string())
    }

    fn read(text: &str) -> Result<Self, Refusal> {
        let read = || {
            let json: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
            Some(Self {
                id: json["id"].as_u64()?,
                revision: json["rv"].as_u64()?,
                from: json["from"].as_u64()? as usize,
            })
        };
        read().ok_or_else(|| Refusal::bad_request("continue key is not valid"))
    }
}
