"""Documents as INCEpTION sends them to an external recommender: a CAS in XMI with its type system."""

from __future__ import annotations

from typing import Any

import cassis

from service.formats.platforms.inception.documents import PREDICTED_FEATURE, SENTENCE_TYPE, TOKEN_TYPE

LAYER = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
FEATURE = "value"
ANNOTATION = "uima.tcas.Annotation"
Entity = tuple[str, str]  # words of the text, label


def make_type_system(*, with_scores: bool = True) -> Any:
    types = cassis.TypeSystem()
    types.create_type(SENTENCE_TYPE, supertypeName=ANNOTATION)
    types.create_type(TOKEN_TYPE, supertypeName=ANNOTATION)
    layer = types.create_type(LAYER, supertypeName=ANNOTATION)
    types.create_feature(layer, FEATURE, "uima.cas.String")
    types.create_feature(layer, PREDICTED_FEATURE, "uima.cas.Boolean")
    if with_scores:
        types.create_feature(layer, f"{FEATURE}_score", "uima.cas.Double")
        types.create_feature(layer, f"{FEATURE}_score_explanation", "uima.cas.String")
    return types


def make_request(*sentences: str, given: tuple[Entity, ...] = (), types: Any = None, **metadata: Any) -> dict[str, Any]:
    """The body of `predict`. Sentences have a space between words and a line each."""
    types = types or make_type_system()
    text = "\n".join(sentences)
    cas = cassis.Cas(types)
    cas.sofa_string, cas.sofa_mime = text, "text/plain"
    begin = 0
    for sentence in sentences:
        cas.add(types.get_type(SENTENCE_TYPE)(begin=begin, end=begin + len(sentence)))
        start = begin
        for word in sentence.split(" "):
            cas.add(types.get_type(TOKEN_TYPE)(begin=start, end=start + len(word)))
            start += len(word) + 1
        begin += len(sentence) + 1
    for words, label in given:
        start = text.index(words)
        cas.add(types.get_type(LAYER)(begin=start, end=start + len(words), **{FEATURE: label}))
    return {
        "metadata": {
            "layer": LAYER,
            "feature": FEATURE,
            "projectId": 1337,
            "anchoringMode": "tokens",
            "crossSentence": False,
            **metadata,
        },
        "document": {"xmi": cas.to_xmi(), "documentId": 42, "userId": "ana"},
        "typeSystem": types.to_xml(),
    }


def read_answer(request: dict[str, Any], xmi: str) -> tuple[list[dict[str, Any]], list[Entity]]:
    """The suggestions and the given entities, as INCEpTION reads them from the answer."""
    cas = cassis.load_cas_from_xmi(xmi, cassis.load_typesystem(request["typeSystem"]))
    suggested, given = [], []
    for annotation in cas.select(LAYER):
        if annotation.get(PREDICTED_FEATURE):
            fields = {name: annotation.get(name) for name in ("begin", "end", FEATURE)}
            score = {name: annotation.get(f"{FEATURE}{name}") for name in ("_score", "_score_explanation")}
            suggested.append({**fields, **score, "words": annotation.get_covered_text()})
        else:
            given.append((annotation.get_covered_text(), annotation.get(FEATURE)))
    return suggested, given
