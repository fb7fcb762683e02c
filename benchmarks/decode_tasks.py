"""Twelve texts for a small model to write under a schema or regex: eight in which keys outweigh values, four of free text."""

from __future__ import annotations

from typing import Any, NamedTuple


class Task(NamedTuple):
    """schema or regex: one of them. prompt: the user's message. max_new_tokens: enough for every engine's spelling."""

    name: str
    prompt: str
    schema: Any = None
    regex: str = ""
    is_free: bool = False
    max_new_tokens: int = 300


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _choice(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


_BOOL = {"type": "boolean"}


def _count(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


SERVER = _object(
    environment=_choice("production", "staging", "development"),
    tls_enabled=_BOOL,
    maximum_connections=_count(10000),
    connection_timeout_seconds=_count(300),
    logging=_object(log_level=_choice("debug", "info", "warning", "error"), rotate_after_megabytes=_count(1000)),
)
WEATHER = _object(
    observation=_object(
        temperature_celsius=_count(45),
        relative_humidity_percent=_count(100),
        wind_direction=_choice("north", "east", "south", "west"),
        wind_speed_kilometres_per_hour=_count(150),
    ),
    instrument_calibrated=_BOOL,
    requires_maintenance=_BOOL,
)
ORDER = _object(
    payment_method=_choice("credit card", "bank transfer", "cash on delivery"),
    shipping_address=_object(country_code=_choice("DE", "FR", "SE"), is_business_address=_BOOL),
    line_items={
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "items": _object(article_number=_count(9999), quantity=_count(99), gift_wrapped=_BOOL),
    },
)
PATIENT = _object(
    patient=_object(age_in_years=_count(120), biological_sex=_choice("female", "male"), is_smoker=_BOOL),
    heart_rate_per_minute=_count(220),
    respiratory_rate_per_minute=_count(60),
    triage_category=_choice("immediate", "urgent", "standard", "non-urgent"),
    isolation_required=_BOOL,
)
CALL = _object(
    name={"const": "schedule_meeting"},
    arguments=_object(
        duration_minutes=_count(480),
        number_of_participants=_count(50),
        recurrence_pattern=_choice("none", "daily", "weekly", "monthly"),
        send_calendar_invitations=_BOOL,
    ),
)
SURVEY = _object(
    **{
        question: _choice("strongly disagree", "disagree", "neutral", "agree", "strongly agree")
        for question in (
            "the instructions were easy to understand",
            "the product arrived in good condition",
            "the price was reasonable for the quality",
        )
    },
    number_of_previous_purchases=_count(100),
)
FORM = (
    r"Registration of a boat\n\n"
    r"Kind of boat: (sailing boat|rowing boat|motor boat)\n"
    r"Length in metres: [1-9][0-9]?\n"
    r"Material of the hull: (wood|steel|aluminium|fibreglass)\n"
    r"Engine installed: (yes|no)\n"
    r"Home port, north or south: (north|south)\n"
)
TABLE = r"\| instrument \| family \| needs tuning \|\n\| --- \| --- \| --- \|\n" + "".join(
    rf"\| {name} \| (string|woodwind|brass|percussion) instrument \| (always|sometimes|rarely) necessary \|\n"
    for name in ("violin", "clarinet", "trumpet", "kettledrum")
)

TASKS = (
    Task("server", "Write the configuration of a small web server as JSON.", schema=SERVER),
    Task("weather", "Invent the report of a weather station by the sea, as JSON.", schema=WEATHER),
    Task("order", "Invent an order in a shop for garden tools, as JSON.", schema=ORDER),
    Task("patient", "Invent the admission form of a patient with a broken arm, as JSON.", schema=PATIENT),
    Task("call", "Call the function that schedules a weekly meeting of five people for half an hour.", schema=CALL),
    Task("survey", "You are a content customer. Fill in the survey, as JSON.", schema=SURVEY),
    Task("form", "Register a wooden sailing boat of eight metres.", regex=FORM),
    Task("table", "Make a table of four instruments, their families, and whether they need tuning.", regex=TABLE),
    Task(
        "story",
        "Write the beginning of a story about a lighthouse keeper, as JSON with a title and a text.",
        schema=_object(title=_text(40), text={"type": "string", "minLength": 120, "maxLength": 200}),
        is_free=True,
    ),
    Task(
        "answer",
        "Why is the sea salty? Answer in two sentences.",
        regex=r"[A-Z][A-Za-z ,'-]{50,90}\. [A-Z][A-Za-z ,'-]{40,80}\.",
        is_free=True,
    ),
    Task(
        "review",
        "Write a review of a book about trees, as JSON with the stars and a text.",
        schema=_object(
            stars={"type": "integer", "minimum": 1, "maximum": 5},
            text={"type": "string", "minLength": 120, "maxLength": 200},
        ),
        is_free=True,
    ),
    Task(
        "letter",
        "Write a short letter to a friend about a holiday in the mountains.",
        regex=r"Dear [A-Z][a-z]{2,9},\n\n[^\x00-\x1f]{100,180}\n\nYours,\n[A-Z][a-z]{2,9}\n",
        is_free=True,
    ),
)
