//! JSON, of which no object has a key twice: RFC 8259 leaves open which of the two counts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value, or the first key that an object in it has twice. Reading goes on behind such a key, so
/// that the documents that follow are read.
pub(super) struct Unique(pub(super) Result<Value, String>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Unique, E> {
        Ok(Unique(Ok(value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Unique, E> {
        Ok(Unique(Ok(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Unique, E> {
        Ok(Unique(Ok(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Unique, E> {
        let number = Number::from_f64(value);
        Ok(Unique(Ok(number.map_or(Value::Null, Value::Number))))
    }

    fn visit_str<E>(self, value: &str) -> Result<Unique, E> {
        Ok(Unique(Ok(value.into())))
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique(Ok(Value::Null)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unique, A::Error> {
        let (mut items, mut twice) = (Vec::new(), None);
        while let Some(Unique(item)) = list.next_element()? {
            match item {
                Ok(item) => items.push(item),
                Err(key) => drop(twice.get_or_insert(key)),
            }
        }
        Ok(Unique(twice.map_or(Ok(items.into()), Err)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Unique, A::Error> {
        let (mut fields, mut twice) = (Map::new(), None);
        while let Some((key, Unique(field))) = object.next_entry::<String, _>()? {
            match field {
                Ok(_) if fields.contains_key(&key) => drop(twice.get_or_insert(key)),
                Ok(field) => drop(fields.insert(key, field)),
                Err(key) => drop(twice.get_or_insert(key)),
            }
        }
        Ok(Unique(twice.map_or(Ok(fields.into()), Err)))
    }
}
