//! A validator of the part of JSON Schema that our schema and those of the Model Context Protocol use. It fails on
//! unknown keywords, so that none is ignored.

use serde_json::{Map, Value};

/// Validates instances.
pub struct Structure {
    schema: Value,
    /// True if additions of later versions are refused: unknown fields, types and names.
    is_strict: bool,
}

impl Structure {
    pub fn strict() -> Self {
        Self {
            schema: td_observe::board::json_schema(),
            is_strict: true,
        }
    }

    pub fn lenient() -> Self {
        Self {
            is_strict: false,
            ..Self::strict()
        }
    }

    /// Takes a schema of others, whose additions are never refused.
    pub fn of(schema: Value) -> Self {
        Self {
            schema,
            is_strict: false,
        }
    }

    /// Validates an envelope, or any value against a schema of others.
    pub fn check(&self, envelope: &Value) -> Result<(), String> {
        self.at(&self.schema, envelope, true)
    }

    /// Validates a value against one of the definitions.
    pub fn check_as(&self, name: &str, value: &Value) -> Result<(), String> {
        let schema = serde_json::json!({"$ref": format!("#/$defs/{name}")});
        self.at(&schema, value, false)
    }

    fn at(&self, schema: &Value, value: &Value, is_root: bool) -> Result<(), String> {
        let keywords = schema.as_object().ok_or("a schema that is no object")?;
        for (keyword, expected) in keywords {
            self.keyword(keyword, expected, keywords, value, is_root)
                .map_err(|why| format!("{keyword}: {why}"))?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        keyword: &str,
        expected: &Value,
        all: &Map<String, Value>,
        value: &Value,
        is_root: bool,
    ) -> Result<(), String> {
        let ensure = |holds: bool| {
            if holds {
                Ok(())
            } else {
                Err(format!("{expected} does not hold for {value}"))
            }
        };
        match keyword {
            "$schema" | "$id" | "title" | "$defs" if is_root => Ok(()),
            "title" | "default" | "examples" if !self.is_strict => Ok(()),
            "description" => ensure(expected.as_str().is_some_and(|text| !text.is_empty())),
            "$ref" => {
                let path = expected.as_str().unwrap().trim_start_matches('#');
                let schema = self.schema.pointer(path);
                self.at(schema.ok_or(format!("no {path}"))?, value, false)
            }
            "type" => {
                let types = expected.as_array().cloned();
                let types = types.unwrap_or_else(|| vec![expected.clone()]);
                ensure(
                    types
                        .iter()
                        .any(|name| is_of(name.as_str().unwrap(), value)),
                )
            }
            "const" => ensure(value == expected),
            "enum" => ensure(expected.as_array().unwrap().contains(value)),
            "not" => ensure(self.at(expected, value, false).is_err()),
            // Asserted by nothing, as the specification says of most formats.
            "format" if matches!(expected.as_str(), Some("byte" | "uri" | "uri-template")) => {
                Ok(())
            }
            "format" => {
                assert_eq!(expected, "date-time");
                let text = value.as_str();
                ensure(text.is_none_or(|text| text.parse::<td_observe::Timestamp>().is_ok()))
            }
            "minimum" => ensure(number(value).is_none_or(|value| Some(value) >= number(expected))),
            "maximum" => ensure(number(value).is_none_or(|value| Some(value) <= number(expected))),
            "minItems" => ensure(length(value) >= expected.as_u64().unwrap()),
            "maxItems" => ensure(length(value) <= expected.as_u64().unwrap()),
            "items" => value
                .as_array()
                .into_iter()
                .flatten()
                .try_for_each(|item| self.at(expected, item, false)),
            "prefixItems" => {
                let schemas = expected.as_array().unwrap();
                let items = value.as_array().into_iter().flatten();
                schemas
                    .iter()
                    .zip(items)
                    .try_for_each(|(schema, item)| self.at(schema, item, false))
            }
            "required" => {
                let names = expected.as_array().unwrap();
                ensure(
                    names
                        .iter()
                        .all(|name| value.get(name.as_str().unwrap()).is_some()),
                )
            }
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    match expected.get(name) {
                        Some(schema) => self
                            .at(schema, field, false)
                            .map_err(|why| format!("{name}: {why}"))?,
                        None if self.is_strict => return Err(format!("no field {name} is known")),
                        None => {}
                    }
                }
                Ok(())
            }
            "additionalProperties" => {
                let known = all.get("properties");
                let is_known = |name: &str| known.is_some_and(|known| known.get(name).is_some());
                for (name, field) in value.as_object().into_iter().flatten() {
                    match expected {
                        _ if is_known(name) => {}
                        Value::Bool(allowed) if *allowed => {}
                        Value::Bool(_) => return Err(format!("no field {name} is known")),
                        schema => self
                            .at(schema, field, false)
                            .map_err(|why| format!("{name}: {why}"))?,
                    }
                }
                Ok(())
            }
            "allOf" => {
                let schemas = expected.as_array().unwrap();
                schemas
                    .iter()
                    .try_for_each(|schema| self.at(schema, value, false))
            }
            "anyOf" => {
                let schemas = expected.as_array().unwrap();
                // The last alternative represents names of later versions.
                let is_open = |schema: &Value| {
                    self.is_strict
                        && schema["type"] == "string"
                        && schemas.iter().any(|other| !other["const"].is_null())
                };
                let mut schemas = schemas.iter().filter(|schema| !is_open(schema));
                ensure(schemas.any(|schema| self.at(schema, value, false).is_ok()))
            }
            "oneOf" => {
                let schemas = expected.as_array().unwrap().iter();
                // The type of an event selects its definition, whose error names the fault.
                let name = value["type"].as_str().unwrap_or_default();
                let own = format!("#/$defs/{name}");
                let (own, others): (Vec<_>, Vec<_>) =
                    schemas.partition(|schema| schema["$ref"] == own.as_str());
                let matching = others
                    .iter()
                    .filter(|schema| self.at(schema, value, false).is_ok());
                let others = matching.count();
                match own.first() {
                    Some(own) => {
                        self.at(own, value, false)?;
                        ensure(others == 0)
                    }
                    None if self.is_strict => Err(format!("no type {name} is known")),
                    None => ensure(others == 1),
                }
            }
            other => panic!("the keyword {other} is not known here"),
        }
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the type {other} is not known here"),
    }
}

/// Parses a number as 128 bits, which hold signed and unsigned ones. Bounds apply to numbers only.
fn number(value: &Value) -> Option<i128> {
    let unsigned = value.as_u64().map(i128::from);
    unsigned.or_else(|| value.as_i64().map(i128::from))
}

fn length(value: &Value) -> u64 {
    value.as_array().map_or(0, Vec::len) as u64
}
