//! Who collects traces: as much of OTLP over HTTP as an exporter needs, on a real socket.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;

/// A collector; it ends with the process.
#[derive(Clone)]
pub(crate) struct Collector {
    address: String,
    collected: Arc<Mutex<Collected>>,
}

/// What it was sent.
#[derive(Default)]
struct Collected {
    connections: usize,
    spans: Vec<Span>,
    headers: Vec<String>,
}

/// What it does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes it.
    Takes,
    /// Reads it, and says nothing.
    Hangs,
}

/// A span, as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) trace: Vec<u8>,
    pub(crate) id: Vec<u8>,
    /// Empty: it has none.
    pub(crate) parent: Vec<u8>,
    /// In nanoseconds since 1970.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// What was logged in it.
    pub(crate) events: Vec<String>,
    /// Why it failed; also of one that does not say.
    pub(crate) error: Option<String>,
    pub(crate) resource: BTreeMap<String, String>,
}

impl Span {
    /// What it says of something; nothing: empty.
    pub(crate) fn says(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

impl Collector {
    /// In the network namespace of the calling thread.
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            address: listener.local_addr().unwrap().to_string(),
            collected: Arc::default(),
        };
        let own = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (own, stream) = (own.clone(), stream.unwrap());
                own.collected.lock().unwrap().connections += 1;
                // One whose exporter was killed ends as that does.
                thread::spawn(move || own.answer(stream, manner));
            }
        });
        collector
    }

    /// Its address, for `--otlp-endpoint`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.collected.lock().unwrap().connections
    }

    /// The lines of the requests' heads.
    pub(crate) fn headers(&self) -> Vec<String> {
        self.collected.lock().unwrap().headers.clone()
    }

    /// What it was sent so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.collected.lock().unwrap().spans.clone()
    }

    /// The spans of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<Span> {
        let spans = self.spans().into_iter();
        spans.filter(|span| span.name == name).collect()
    }

    /// Those that a span is the parent of.
    pub(crate) fn below(&self, parent: &Span) -> Vec<Span> {
        let spans = self.spans().into_iter();
        spans.filter(|span| span.parent == parent.id).collect()
    }

    fn answer(&self, stream: TcpStream, manner: Manner) -> Option<()> {
        let mut answers = stream.try_clone().ok()?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                match line.trim() {
                    "" => break,
                    line => head.push(line.to_owned()),
                }
            }
            let lower: Vec<String> = head.iter().map(|line| line.to_lowercase()).collect();
            let length = lower
                .iter()
                .find_map(|it| it.strip_prefix("content-length: "))?;
            let mut body = vec![0; length.parse().ok()?];
            reader.read_exact(&mut body).ok()?;
            assert!(
                lower.contains(&"content-type: application/x-protobuf".to_owned()),
                "{head:?}"
            );
            self.collected.lock().unwrap().headers.extend(head);
            if manner == Manner::Takes {
                self.take(ExportTraceServiceRequest::decode(&*body).unwrap());
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n\
                    content-length: 0\r\n\r\n";
                answers.write_all(answer.as_bytes()).ok()?;
            }
        }
    }

    fn take(&self, request: ExportTraceServiceRequest) {
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let resource = texts(&resource.attributes);
            let scopes = of_resource.scope_spans.into_iter();
            let spans = scopes.flat_map(|scope| scope.spans).map(|span| Span {
                name: span.name,
                trace: span.trace_id,
                id: span.span_id,
                parent: span.parent_span_id,
                from: span.start_time_unix_nano,
                to: span.end_time_unix_nano,
                attributes: texts(&span.attributes),
                events: span.events.into_iter().map(|event| event.name).collect(),
                error: span.status.filter(|it| it.code == 2).map(|it| it.message),
                resource: resource.clone(),
            });
            self.collected.lock().unwrap().spans.extend(spans);
        }
    }
}

/// Attributes, in words.
fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(truth) => truth.to_string(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = attributes.iter();
    attributes
        .map(|it| {
            let value = it.value.as_ref().and_then(|value| value.value.as_ref());
            (it.key.clone(), value.map(text).unwrap_or_default())
        })
        .collect()
}
