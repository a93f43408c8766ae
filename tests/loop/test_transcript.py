import pytest

from loop.request import (
    AssistantMessage,
    OfferedTool,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn, ProposedCall
from loop.transcript import (
    BUILDER_VERSION,
    RecordedCall,
    RecordedStep,
    RequestManifest,
    RunRecord,
    build_request,
    offered_tools,
)
from umbel.errors import InvariantBroken

BRACES = "Keep {this} and {{that}} and %s and ${HOME} as it is."


def a_step(
    number: int, *names: str, text: str = "", endpoint: str | None = "local"
) -> RecordedStep:
    proposed = tuple(
        ProposedCall(model_id="same", name=name, status="ok", arguments_text="{}", extra={"n": at})
        for at, name in enumerate(names)
    )
    calls = tuple(
        RecordedCall(f"call_{number}_{at}", name, f'{{"n":{at}}}', f"result {number}.{at}")
        for at, name in enumerate(names)
    )
    return RecordedStep(number, endpoint, ModelTurn(text=text, calls=proposed), calls)


def a_record(*steps: RecordedStep, instructions: str = "Be brief.") -> RunRecord:
    return RunRecord(
        model="m",
        instructions=instructions,
        requests=("Look around.", "And tell me."),
        steps=steps,
        tools=(OfferedTool("look", "Looks.", {"type": "object"}),),
        max_output_tokens=100,
    )


def test_the_first_request_is_instructions_and_what_people_wrote() -> None:
    request = build_request(a_record())
    assert request.messages == (
        SystemMessage("Be brief."),
        UserMessage("Look around."),
        UserMessage("And tell me."),
    )
    assert (request.model, request.max_output_tokens, request.purpose) == ("m", 100, "main")
    assert [tool.name for tool in request.tools] == ["look"]


def test_without_instructions_there_is_no_system_message() -> None:
    assert build_request(a_record(instructions="")).messages[0] == UserMessage("Look around.")


def test_every_call_has_exactly_one_result_in_the_order_the_model_asked() -> None:
    request = build_request(a_record(a_step(1, "look", "read", "look"), a_step(2, "read")))
    kinds = [type(message).__name__ for message in request.messages[3:]]
    assert kinds == ["AssistantMessage", *["ToolMessage"] * 3, "AssistantMessage", "ToolMessage"]
    results = [message for message in request.messages if isinstance(message, ToolMessage)]
    assert [message.text for message in results] == [
        "result 1.0",
        "result 1.1",
        "result 1.2",
        "result 2.0",
    ]
    asked = [
        call.call_id
        for message in request.messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    ]
    assert asked == [message.call_id for message in results]
    assert len(set(asked)) == len(asked), "ids are ours, so the model's doubles do no harm"


def test_a_reply_keeps_its_words_its_provider_fields_and_where_it_came_from() -> None:
    [_, _, _, message, _] = build_request(a_record(a_step(1, "look", text="Let me look."))).messages
    assert isinstance(message, AssistantMessage)
    assert (message.text, message.endpoint) == ("Let me look.", "local")
    assert message.calls[0].extra == {"n": 0}


def test_texts_pass_through_without_any_template_being_applied() -> None:
    record = RunRecord("m", BRACES, (BRACES,), (), (), None)
    assert build_request(record).messages == (SystemMessage(BRACES), UserMessage(BRACES))


def test_a_call_whose_arguments_could_not_be_read_is_shown_with_an_empty_object() -> None:
    proposed = ProposedCall(model_id="x", name="look", status="invalid_arguments")
    step = RecordedStep(
        1, None, ModelTurn(calls=(proposed,)), (RecordedCall("call_1", "look", None, "no"),)
    )
    message = build_request(a_record(step)).messages[3]
    assert isinstance(message, AssistantMessage)
    assert message.calls[0].arguments_text == "{}"


def test_a_step_with_fewer_results_than_calls_is_a_broken_record() -> None:
    whole = a_step(1, "look", "read")
    cut = RecordedStep(1, whole.endpoint, whole.reply, whole.calls[:1])
    with pytest.raises(InvariantBroken, match="Step 1 asked for 2 calls and has 1 rows"):
        build_request(a_record(cut))


def test_the_same_record_gives_the_same_request() -> None:
    record = a_record(a_step(1, "look"), a_step(2, "read", "look"))
    assert build_request(record) == build_request(record)


def test_the_request_for_the_next_step_only_adds_at_the_end() -> None:
    shorter = build_request(a_record(a_step(1, "look"))).messages
    longer = build_request(a_record(a_step(1, "look"), a_step(2, "read"))).messages
    assert longer[: len(shorter)] == shorter


def test_a_manifest_is_small_and_does_not_grow_with_the_run() -> None:
    sizes = {
        len(
            RequestManifest(
                policy_sha="a" * 64,
                tools_sha="b" * 64,
                through_step=step,
                form={"endpoint": "chat:x"},
            ).model_dump_json()
        )
        for step in (1_000, 9_999)
    }
    assert len(sizes) == 1
    assert sizes.pop() < 500


def test_a_manifest_names_the_builder_and_can_be_read_back() -> None:
    manifest = RequestManifest(policy_sha="a", tools_sha="b", through_step=3, form={})
    assert manifest.builder == BUILDER_VERSION
    assert RequestManifest.model_validate_json(manifest.model_dump_json()) == manifest


def test_the_model_sees_of_a_tool_only_what_it_needs() -> None:
    frozen = {
        "name": "write",
        "description": "Writes.",
        "input_schema": {"type": "object"},
        "effect": "mutation",
        "placement": "task",
        "version": "3",
    }
    assert offered_tools([frozen]) == (OfferedTool("write", "Writes.", {"type": "object"}),)
