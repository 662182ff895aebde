//! What kubectl reads of YAML and JSON, as a table.

use serde_json::{Value, json};

const TABLE: &str = include_str!("kubectl.txt");

/// A text, and what is read of it.
pub struct KubectlRow {
    /// The text.
    pub text: String,
    /// The objects that kubectl prints, without the ConfigMap's head.
    pub objects: Vec<Value>,
    /// kubectl refuses the text, or what follows these objects.
    pub is_refused: bool,
    /// The documents that netqos reads in their place, where it deviates; null is one that it refuses.
    pub deviation: Option<Vec<Value>>,
}

/// The rows of the table. The ConfigMaps of each are named after its number.
pub fn kubectl_rows() -> Vec<KubectlRow> {
    let lines = TABLE.lines().filter(|line| line.starts_with('['));
    let lines = lines.map(|line| serde_json::from_str::<Vec<Value>>(line).expect("a list"));
    let rows = lines.flat_map(|mut line| match line.first() {
        Some(Value::Null) => line
            .drain(1..)
            .map(|text| vec![text, Value::Null])
            .collect(),
        _ => vec![line],
    });
    rows.enumerate()
        .map(|(number, line)| row(number, line))
        .collect()
}

/// An object without the head of a row's ConfigMap, if that is the row's.
pub fn without_head(number: usize, mut object: Value) -> Value {
    let head = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(number)}});
    if let (Some(fields), Some(head)) = (object.as_object_mut(), head.as_object()) {
        fields.retain(|key, value| head.get(key) != Some(value));
    }
    object
}

fn name(number: usize) -> String {
    format!("row-{number}")
}

fn row(number: usize, mut row: Vec<Value>) -> KubectlRow {
    let text = row.remove(0);
    let text = text.as_str().expect("a text");
    let name = name(number);
    let head = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let json =
        format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}"#);
    let text = match text.contains('@') {
        true => text.replace("{@", &json).replace('@', &head),
        false => head + text,
    };
    let deviation = row
        .pop_if(|last| last.is_array())
        .and_then(|it| it.as_array().cloned());
    KubectlRow {
        text,
        is_refused: row.pop_if(|last| last.is_null()).is_some(),
        objects: row,
        deviation,
    }
}
