//! Our .proto text against the official descriptors, fact by fact.
//!
//! `golden_listing.txt` comes from the PyPI package `p4runtime`; `golden_listing.py` refreshes and
//! checks it where Python and PyPI are at hand.

use std::collections::BTreeSet;

use p4runtime_proto::FILE_DESCRIPTOR_SET;
use prost_reflect::prost::Message;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

fn kind(of: Type) -> &'static str {
    match of {
        Type::Double => "double",
        Type::Float => "float",
        Type::Int64 => "int64",
        Type::Uint64 => "uint64",
        Type::Int32 => "int32",
        Type::Fixed64 => "fixed64",
        Type::Fixed32 => "fixed32",
        Type::Bool => "bool",
        Type::String => "string",
        Type::Group => "group",
        Type::Message => "message",
        Type::Bytes => "bytes",
        Type::Uint32 => "uint32",
        Type::Enum => "enum",
        Type::Sfixed32 => "sfixed32",
        Type::Sfixed64 => "sfixed64",
        Type::Sint32 => "sint32",
        Type::Sint64 => "sint64",
    }
}

fn list_enum(path: &str, definition: &EnumDescriptorProto, facts: &mut Vec<String>) {
    for value in &definition.value {
        facts.push(format!("enum {path} {} = {}", value.name(), value.number()));
    }
}

fn list_message(path: &str, message: &DescriptorProto, facts: &mut Vec<String>) {
    let map = if message.options.as_ref().is_some_and(|options| options.map_entry()) { " map" } else { "" };
    facts.push(format!("message {path}{map}"));
    for field in &message.field {
        let mut fact = format!("field {path} {} = {}: ", field.name(), field.number());
        if field.label() == Label::Repeated {
            fact += "repeated ";
        }
        fact += kind(field.r#type());
        if let Some(name) = &field.type_name {
            fact += &format!(" {}", name.trim_start_matches('.'));
        }
        if field.proto3_optional() {
            fact += ", optional";
        } else if let Some(index) = field.oneof_index {
            fact += &format!(", oneof {}", message.oneof_decl[index as usize].name());
        }
        if field.options.as_ref().is_some_and(|options| options.deprecated()) {
            fact += ", deprecated";
        }
        facts.push(fact);
    }
    for range in &message.reserved_range {
        facts.push(format!("reserved {path} {}..{}", range.start(), range.end()));
    }
    for name in &message.reserved_name {
        facts.push(format!("reserved {path} {name}"));
    }
    for nested in &message.nested_type {
        list_message(&format!("{path}.{}", nested.name()), nested, facts);
    }
    for definition in &message.enum_type {
        list_enum(&format!("{path}.{}", definition.name()), definition, facts);
    }
}

fn facts() -> Vec<String> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("our own descriptors decode");
    let mut facts = Vec::new();
    for file in set.file.iter().filter(|file| file.package().starts_with("p4.")) {
        let package = file.package();
        for message in &file.message_type {
            list_message(&format!("{package}.{}", message.name()), message, &mut facts);
        }
        for definition in &file.enum_type {
            list_enum(&format!("{package}.{}", definition.name()), definition, &mut facts);
        }
        for service in &file.service {
            for method in &service.method {
                let stream = |yes| if yes { "stream " } else { "" };
                facts.push(format!(
                    "method {package}.{}/{}({}{}) -> {}{}",
                    service.name(),
                    method.name(),
                    stream(method.client_streaming()),
                    method.input_type().trim_start_matches('.'),
                    stream(method.server_streaming()),
                    method.output_type().trim_start_matches('.'),
                ));
            }
        }
    }
    facts
}

#[test]
fn every_message_field_enum_and_method_is_the_official_one() {
    let golden: BTreeSet<String> = include_str!("golden_listing.txt").lines().map(str::to_owned).collect();
    assert!(golden.len() > 600, "the listing is cut off");
    let ours: BTreeSet<String> = facts().into_iter().collect();
    let missing: Vec<_> = golden.difference(&ours).collect();
    let extra: Vec<_> = ours.difference(&golden).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing: {missing:#?}\nextra: {extra:#?}");
}

#[test]
fn the_status_of_errors_is_the_one_of_google_rpc() {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("our own descriptors decode");
    let file = set.file.iter().find(|file| file.package() == "google.rpc").expect("google.rpc is there");
    let mut facts = Vec::new();
    list_message("Status", &file.message_type[0], &mut facts);
    let expected = [
        "message Status",
        "field Status code = 1: int32",
        "field Status message = 2: string",
        "field Status details = 3: repeated message google.protobuf.Any",
    ];
    assert_eq!(facts, expected);
}
