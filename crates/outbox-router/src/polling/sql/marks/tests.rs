use super::{super::facts::samples, *};

fn columns(list: &[(&str, Type, &[&str])]) -> Facts {
    let id = samples::column("id", &Type::UUID, &["not_null"]);
    let others = list.iter().map(|(name, of, flags)| samples::column(name, of, flags));
    samples::table([id].into_iter().chain(others).collect())
}

fn with_default(mut facts: Facts, name: &str, default: &str) -> Facts {
    for column in facts.columns.iter_mut().filter(|column| column.name == name) {
        column.default = Some(default.to_owned());
    }
    facts
}

fn of(facts: &Facts, config: &MarkConfig) -> Result<Marks, Failure> {
    let table = TableName { schema: "public".into(), name: "outbox".into() };
    marks(&table, facts, config, "default")
}

fn found(facts: &Facts) -> Marks {
    of(facts, &MarkConfig::default()).unwrap()
}

fn how(how: MarkHow, column: Option<&str>) -> MarkConfig {
    MarkConfig { how, column: column.map(str::to_owned), ..MarkConfig::default() }
}

const NOT_NULL: &[&str] = &["not_null"];

#[test]
fn a_time_that_is_null_marks_a_pending_row() {
    let marks = found(&columns(&[("published_at", Type::TIMESTAMPTZ, &[])]));
    assert_eq!((marks.decides, marks.time.as_deref()), (Decides::Time, Some("published_at")));
    assert!(!marks.claim.is_made() && !marks.keeps_waits() && !marks.records_abandoned());
    for unsuitable in [
        columns(&[("published_at", Type::TIMESTAMPTZ, NOT_NULL)]),
        columns(&[("published_at", Type::TEXT, &[])]),
        columns(&[("published_at", Type::TIMESTAMPTZ, &["generated"])]),
        with_default(columns(&[("published_at", Type::TIMESTAMPTZ, &[])]), "published_at", "now()"),
        columns(&[]),
    ] {
        let failure = of(&unsuitable, &MarkConfig::default()).unwrap_err();
        assert_eq!(failure.code, relay::Code::Polling);
        assert!(failure.message.contains("add column published_at"), "{failure}");
    }
}

#[test]
fn a_flag_decides_before_a_time() {
    let both =
        columns(&[("published", Type::BOOL, NOT_NULL), ("published_at", Type::TIMESTAMP, &[])]);
    let marks = found(&both);
    let flag = |form, nullable| Flag { column: "published".into(), form, nullable };
    assert_eq!(marks.decides, Decides::Flag);
    assert_eq!(marks.flag, Some(flag(FlagForm::Boolean, Nullable::No)));
    assert_eq!(marks.time.as_deref(), Some("published_at"));
    let eventuate = found(&columns(&[("published", Type::INT2, &[])]));
    assert_eq!(eventuate.flag, Some(flag(FlagForm::Number, Nullable::Yes)));
    let marks = of(&both, &how(MarkHow::Timestamp, None)).unwrap();
    assert_eq!((marks.decides, marks.flag), (Decides::Time, None));
}

/// Else each row would be published from its beginning.
#[test]
fn a_flag_that_is_set_by_default_is_no_mark() {
    for (of_type, unset, set) in [
        (Type::BOOL, ["false", "NULL::boolean"], ["true", "now() > 'x'"]),
        (Type::INT2, ["0", "'0'::smallint"], ["1", "nextval('s'::regclass)"]),
    ] {
        let flag = columns(&[("published", of_type, &[]), ("sent_at", Type::TIMESTAMPTZ, &[])]);
        for default in unset {
            let marks = found(&with_default(flag.clone(), "published", default));
            assert_eq!(marks.decides, Decides::Flag, "{default}");
        }
        for default in set {
            let facts = with_default(flag.clone(), "published", default);
            assert_eq!(found(&facts).decides, Decides::Time, "{default}");
            let failure = of(&facts, &how(MarkHow::Flag, Some("published"))).unwrap_err();
            let what = "column published that is a boolean or an integer whose default is false, 0";
            assert!(failure.message.contains(what), "{failure}");
        }
    }
}

#[test]
fn a_status_decides_before_all() {
    let facts = columns(&[
        ("status", Type::TEXT, NOT_NULL),
        ("published_at", Type::TIMESTAMPTZ, &[]),
        ("processing_at", Type::TIMESTAMPTZ, &[]),
        ("last_error", Type::TEXT, &[]),
        ("attempts", Type::INT4, NOT_NULL),
        ("available_at", Type::TIMESTAMPTZ, NOT_NULL),
    ]);
    let facts = with_default(facts, "status", "'PENDING'::text");
    let marks = found(&facts);
    assert_eq!((marks.decides, marks.time.as_deref()), (Decides::Status, Some("published_at")));
    assert_eq!(marks.status.as_ref().unwrap().words.published, "PUBLISHED");
    assert_eq!(marks.claim.since.as_deref(), Some("processing_at"));
    assert!(marks.claim.is_made() && marks.keeps_waits() && marks.records_abandoned());
    assert_eq!(marks.last_error.unwrap().max, 2_000);
    // A status that is something else is left alone.
    let other = with_default(facts, "status", "'DRAFT'::text");
    assert_eq!(found(&other).decides, Decides::Time);
    assert!(of(&other, &how(MarkHow::Status, None)).is_err());
    let named = MarkConfig { pending: vec!["DRAFT".into()], ..how(MarkHow::Status, None) };
    assert_eq!(of(&other, &named).unwrap().decides, Decides::Status);
}

/// There is a status; what is missing is its word.
#[test]
fn a_status_without_a_known_word_is_named_with_the_keys_that_make_it_one() {
    let with_labels = |labels: &[&str]| {
        let mut facts = columns(&[("status", Type::TEXT, NOT_NULL)]);
        facts.columns[1].labels = Some(labels.iter().map(|&label| label.to_owned()).collect());
        facts
    };
    let facts = with_labels(&["OPEN", "CLOSED"]);
    let failure = of(&facts, &MarkConfig::default()).unwrap_err();
    assert_eq!(
        failure.message,
        "public.outbox cannot be polled: no column says that a row is published: of the words that \
         its column status may have (OPEN, CLOSED) none is known to mean pending: name them in \
         outbox.mark.pending and outbox.mark.published; or alter table \"public\".\"outbox\" add \
         column published_at timestamptz, or name the column in outbox.mark, or \
         outbox.mark.how = \"delete\""
    );
    let (pending, published) = (vec!["OPEN".to_owned()], Some("CLOSED".to_owned()));
    let named = MarkConfig { pending, published: published.clone(), ..MarkConfig::default() };
    assert_eq!(of(&facts, &named).unwrap().decides, Decides::Status, "what was typed helps");
    let facts = with_labels(&["PENDING", "CLOSED"]);
    let failure = of(&facts, &MarkConfig::default()).unwrap_err();
    assert!(failure.message.contains("name it in outbox.mark.published; or alter"), "{failure}");
    let named = MarkConfig { published, ..MarkConfig::default() };
    assert_eq!(of(&facts, &named).unwrap().decides, Decides::Status, "what was typed helps");
    // Where no status is looked for, and where it is another library's, none is named.
    let timestamp = of(&facts, &how(MarkHow::Timestamp, None)).unwrap_err();
    let table = TableName { schema: "public".into(), name: "outbox".into() };
    let spring = marks(&table, &facts, &MarkConfig::default(), "spring_modulith").unwrap_err();
    for failure in [timestamp, spring] {
        assert!(!failure.message.contains("status"), "{failure}");
    }
}

#[test]
fn a_lock_is_a_claim_and_a_worker_is_named_where_it_fits() {
    let by = |of: Type, modifier: i32| {
        let mut facts = columns(&[
            ("published_at", Type::TIMESTAMPTZ, &[]),
            ("locked_by", of, &[]),
            ("locked_until", Type::TIMESTAMPTZ, &[]),
        ]);
        facts.columns[2].modifier = modifier;
        found(&facts).claim.by
    };
    assert_eq!(by(Type::TEXT, -1).as_deref(), Some("locked_by"));
    assert_eq!(by(Type::UUID, -1).as_deref(), Some("locked_by"));
    assert_eq!(by(Type::VARCHAR, 40).as_deref(), Some("locked_by"));
    assert_eq!(by(Type::VARCHAR, 39), None);
    assert_eq!(by(Type::INT4, -1), None);
    // Without a state or a holder, the time of processing is no claim.
    let time = columns(&[
        ("published_at", Type::TIMESTAMPTZ, &[]),
        ("processing_at", Type::TIMESTAMPTZ, &[]),
    ]);
    assert!(!found(&time).claim.is_made());
}

fn read_only(mut facts: Facts, names: &[&str]) -> Facts {
    for column in facts.columns.iter_mut().filter(|it| names.contains(&it.name.as_str())) {
        column.flags.retain(|flag| flag != "update");
    }
    facts
}

/// What others have written says still which rows are not to be sent.
#[test]
fn what_the_role_may_not_write_is_respected_and_not_written() {
    let facts = columns(&[
        ("published_at", Type::TIMESTAMPTZ, &[]),
        ("locked_until", Type::TIMESTAMPTZ, &[]),
        ("available_at", Type::TIMESTAMPTZ, &[]),
        ("attempts", Type::INT4, &[]),
        ("abandoned_at", Type::TIMESTAMPTZ, &[]),
    ]);
    let all = found(&facts);
    assert!(all.claim.is_made() && all.keeps_waits() && all.records_abandoned());
    let facts = read_only(facts, &["locked_until", "available_at", "abandoned_at"]);
    let marks = found(&facts);
    assert!(!marks.claim.is_made() && !marks.keeps_waits() && !marks.records_abandoned());
    assert_eq!(marks.claim.until.as_deref(), Some("locked_until"));
    assert_eq!(marks.available_at.as_deref(), Some("available_at"));
    assert_eq!(marks.abandoned_at.as_deref(), Some("abandoned_at"));
    assert_eq!(marks.next_attempt(), None);
}

#[test]
fn words_that_the_role_may_not_write_are_known() {
    let facts = columns(&[
        ("status", Type::TEXT, NOT_NULL),
        ("processing_at", Type::TIMESTAMPTZ, &[]),
        ("available_at", Type::TIMESTAMPTZ, &[]),
    ]);
    let facts = with_default(facts, "status", "'PENDING'::text");
    let delete = how(MarkHow::Delete, None);
    let marks = of(&facts, &delete).unwrap();
    assert!(marks.claim.is_made() && marks.next_attempt().is_some() && marks.records_abandoned());
    let marks = of(&read_only(facts, &["status"]), &delete).unwrap();
    assert_eq!(marks.status.as_ref().unwrap().words.processing.as_deref(), Some("PROCESSING"));
    assert_eq!(marks.written_status(), None);
    // A row with the time of a lock and another word is free, and one with a later attempt and no
    // word holds no key.
    assert!(marks.claim.ends() && !marks.claim.is_made());
    assert!(marks.next_attempt().is_none() && !marks.records_abandoned());
}

/// Nothing would show that the row was tried, so it would not hold its key at another worker.
#[test]
fn a_time_of_the_next_attempt_is_written_where_the_table_shows_failed_rows() {
    let published = ("published_at", Type::TIMESTAMPTZ, &[][..]);
    let available = ("available_at", Type::TIMESTAMPTZ, &[][..]);
    let marks = found(&columns(&[published.clone(), available.clone()]));
    assert_eq!((marks.available_at.is_some(), marks.next_attempt()), (true, None));
    let attempts = ("attempts", Type::INT4, &[][..]);
    let counted = found(&columns(&[published, available.clone(), attempts.clone()]));
    assert!(counted.next_attempt().is_some() && counted.keeps_waits());
    // A word that new rows have, too, does not show it.
    let status = ("status", Type::TEXT, NOT_NULL);
    let with_status = |list: &[_]| with_default(columns(list), "status", "'PENDING'::text");
    let pending = MarkConfig { failed: Some("PENDING".into()), ..MarkConfig::default() };
    let uncounted = with_status(&[status.clone(), available.clone()]);
    assert!(found(&uncounted).next_attempt().is_some());
    assert_eq!(of(&uncounted, &pending).unwrap().next_attempt(), None);
    let counted = with_status(&[status, available, attempts]);
    assert!(of(&counted, &pending).unwrap().keeps_waits());
}

/// The way without DDL is there for who may write the status alone.
#[test]
fn what_lets_an_abandoned_row_be_recorded_is_a_column_or_the_word_for_failed() {
    let table = TableName { schema: "public".into(), name: "outbox".into() };
    let column = "alter table \"public\".\"outbox\" add column abandoned_at timestamptz";
    let time = found(&columns(&[("published_at", Type::TIMESTAMPTZ, &[])]));
    assert_eq!(time.to_record_abandoned(&table), column);
    let status = columns(&[("status", Type::TEXT, NOT_NULL)]);
    let mut status = with_default(status, "status", "'PENDING'::text");
    let check = "CHECK ((status = ANY (ARRAY['PENDING'::text, 'SENT'::text, 'FAILED'::text])))";
    status.columns[1].checks = Some(vec![check.to_owned()]);
    let marks = found(&status);
    assert!(!marks.records_abandoned());
    assert_eq!(
        marks.to_record_abandoned(&table),
        format!(
            "{column}; or, without DDL, outbox.mark.failed = \"PENDING\" with \
             outbox.mark.abandoned = \"FAILED\": a row that waits for another attempt is then \
             \"PENDING\", and \"FAILED\" means abandoned"
        )
    );
    let words = MarkConfig {
        failed: Some("PENDING".into()),
        abandoned: Some("FAILED".into()),
        ..MarkConfig::default()
    };
    assert!(of(&status, &words).unwrap().records_abandoned());
    let marks = of(&read_only(status, &["status"]), &how(MarkHow::Delete, None)).unwrap();
    assert_eq!(marks.to_record_abandoned(&table), column);
}

#[test]
fn a_mark_that_the_role_may_not_write_is_refused() {
    let facts = columns(&[("published_at", Type::TIMESTAMPTZ, &[])]);
    let facts = read_only(facts, &["published_at"]);
    let failure = of(&facts, &MarkConfig::default()).unwrap_err();
    let grant = "grant update (\"published_at\") on \"public\".\"outbox\" to \"router\"";
    assert!(failure.message.contains(grant), "{failure}");
    assert_eq!(failure.case, Some(relay::Case::PermissionDenied));
}

#[test]
fn a_deleted_row_needs_no_mark() {
    let marks = of(&columns(&[]), &how(MarkHow::Delete, None)).unwrap();
    assert_eq!(marks.decides, Decides::Presence);
    let named = how(MarkHow::Timestamp, Some("gone"));
    let facts = columns(&[("gone", Type::TIMESTAMPTZ, &[]), ("sent", Type::BOOL, &[])]);
    assert_eq!(of(&facts, &named).unwrap().time.as_deref(), Some("gone"));
    assert!(of(&facts, &how(MarkHow::Timestamp, Some("none"))).is_err());
    assert!(of(&facts, &how(MarkHow::Flag, Some("gone"))).is_err());
}

#[test]
fn an_error_is_cut_to_its_column() {
    let mut facts = columns(&[
        ("published_at", Type::TIMESTAMPTZ, &[]),
        ("error_message", Type::VARCHAR, &[]),
        ("retry_count", Type::INT2, &[]),
    ]);
    facts.columns[2].modifier = 104;
    let marks = found(&facts);
    assert_eq!(marks.last_error, Some(LastError { column: "error_message".into(), max: 100 }));
    assert_eq!(marks.attempts.unwrap().max, 32_767);
}

#[test]
fn times_without_a_time_zone_are_known_that_others_fill_in_their_own() {
    let of = |time: &Type| {
        let facts = columns(&[
            ("published_at", time.clone(), &[]),
            ("abandoned_at", Type::TIMESTAMPTZ, &[]),
            ("available_at", time.clone(), NOT_NULL),
            ("locked_until", time.clone(), &[]),
            ("locked_at", time.clone(), &[]),
            ("locked_by", Type::TEXT, &[]),
            // No mark.
            ("delivered_at", time.clone(), &[]),
        ]);
        found(&facts).zoneless(&facts)
    };
    assert!(of(&Type::TIMESTAMPTZ).is_empty());
    assert_eq!(of(&Type::TIMESTAMP), ["available_at", "locked_until", "locked_at"]);
    for (default, is_utc) in [
        ("(now() AT TIME ZONE 'utc'::text)", true),
        ("timezone('utc'::text, now())", true),
        ("now()", false),
        ("(now() AT TIME ZONE 'Europe/Berlin'::text)", false),
    ] {
        let facts = columns(&[
            ("published_at", Type::TIMESTAMP, &[]),
            ("available_at", Type::TIMESTAMP, NOT_NULL),
        ]);
        let facts = with_default(facts, "available_at", default);
        assert_eq!(found(&facts).zoneless(&facts).is_empty(), is_utc, "{default}");
    }
}
