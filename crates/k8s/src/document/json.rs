//! JSON. Of a key that an object has twice the last one counts, as for kubectl: RFC 8259 leaves open which one does.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::fault;
use super::yaml::{Read, number};

/// Reads the first value of a text, and says where it ends. `None` if the text does not begin with one.
pub(super) fn read(text: &str) -> Option<(Read, usize)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Read>();
    let read = stream.next()?.ok()?;
    Some((read, stream.byte_offset()))
}

impl From<Value> for Read {
    fn from(value: Value) -> Self {
        Self {
            value,
            left_out: Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadVisitor)
    }
}

struct ReadVisitor;

impl<'de> Visitor<'de> for ReadVisitor {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Read, E> {
        // An API server has no larger integers.
        let number =
            i64::try_from(value).map_or_else(|_| number(value as f64), |it| Some(it.into()));
        Ok(number.map_or(Value::Null, Value::Number).into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Read, E> {
        Ok(number(value).map_or(Value::Null, Value::Number).into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Value::Null.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Read, A::Error> {
        let (mut items, mut left_out) = (Vec::new(), Vec::new());
        while let Some(item) = list.next_element::<Read>()? {
            items.push(item.value);
            left_out.extend(item.left_out);
        }
        Ok(Read {
            value: items.into(),
            left_out,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Read, A::Error> {
        let (mut fields, mut left_out) = (Map::new(), Vec::new());
        while let Some((key, field)) = object.next_entry::<String, Read>()? {
            left_out.extend(field.left_out);
            if fields.contains_key(&key) && left_out.len() < fault::NAMED {
                left_out.push(fault::twice(&key));
            }
            fields.insert(key, field.value);
        }
        Ok(Read {
            value: fields.into(),
            left_out,
        })
    }
}
