"""Write the small labelled files of docs/fine_tuning.md, drawn from a seed.

    python examples/data/make_data.py [FOLDER]

All sentences are made up here. English and Korean (`…_ko`): `reviews` and `new_reviews` (CSV; film
reviews with 1 or 5 stars), `entities` (CoNLL columns; persons and places), `questions` (SQuAD 2.0's
JSON; a third of them without an answer).
"""

import csv
import json
import os
import random
import sys

ROWS = 200
SEED = 5
LANGUAGES = {
    "": {
        "parts": ["music", "story", "ending", "camera work", "dialogue", "cast", "first half"],
        "marks": {"1": ["dull", "clumsy", "far too long", "a waste of an evening"],
                  "5": ["moving", "clever", "worth every minute", "a quiet triumph"]},
        "reviews": ["The {part} was {mark}.", "I found the {part} {mark}, as did my sister.",
                    "{year} or not, the {part} is {mark}.", "Honestly, the {part}: {mark}."],
        "persons": ["Ann Lee", "Omar Haddad", "Ruth", "Ivan Petrov", "Mei Tan"],
        "places": ["Lisbon", "New Harbour", "Busan", "Oakfield", "Lake Mora"],
        "entities": ["{person} went back to {place} in {year} .", "In {place} it rained all day .",
                     "Nobody but {person} knew the way .", "{person} wrote from {place} .",
                     "The film ends where it began ."],
        "context": "{person} was born in {place} in {year} and never left the town. The old house "
                   "by the river is a museum now.",
        "questions": [("When was {person} born?", "{year}"),
                      ("Where was {person} born?", "{place}"),
                      ("What does a ticket to the museum cost?", None)],
    },
    "_ko": {
        "parts": ["음악은", "이야기는", "결말은", "화면은", "대사는", "연기는", "전반부는"],
        "marks": {"1": ["지루했다", "어색했다", "너무 길었다", "시간이 아까웠다"],
                  "5": ["뭉클했다", "재치 있었다", "아주 훌륭했다", "오래 기억에 남는다"]},
        "reviews": ["{part} {mark}.", "내 생각에 {part} {mark}.",
                    "{year}년 영화지만 {part} {mark}.",
                    "솔직히 {part} {mark}, 동생도 그렇단다."],
        "persons": ["김하늘", "박 서준", "이봄", "오마르 하다드", "최다솜"],
        "places": ["부산", "새 항구", "리스본", "참나무골", "모라 호수"],
        "entities": ["{person} 씨가 {year}년 {place} 근처로 돌아왔다 .",
                     "{place} 날씨는 종일 흐렸다 .", "길을 아는 사람은 {person} 씨뿐이었다 .",
                     "{person} 씨가 {place} 소식을 전했다 .",
                     "영화는 시작한 곳에서 끝난다 ."],
        "context": "{person} 씨는 {year}년에 {place} 마을에서 태어나 그곳을 떠나지 않았다. "
                   "강가의 옛집은 지금 박물관이다.",
        "questions": [("{person} 씨는 언제 태어났나?", "{year}년"),
                      ("{person} 씨는 어디에서 태어났나?", "{place}"),
                      ("박물관 입장료는 얼마인가?", None)],
    },
}


def reviews(draw, words, before=()):
    """Rows `(review, stars)`, a list, none of them among those `before`."""
    rows = []
    while len(rows) < ROWS:
        stars = draw.choice(sorted(words["marks"]))
        row = draw.choice(words["reviews"]).format(
            part=draw.choice(words["parts"]), mark=draw.choice(words["marks"][stars]),
            year=draw.randint(1950, 2020)), stars
        rows += [row] if row not in before else []
    return rows


def names(draw, words):
    """A person, a place and a year."""
    return {"person": draw.choice(words["persons"]), "place": draw.choice(words["places"]),
            "year": str(draw.randint(1800, 2020))}


def entities(draw, words):
    """Sentences, each a list of `(word, tag)`."""
    for _ in range(ROWS):
        chosen, sentence = names(draw, words), []
        for slot in draw.choice(words["entities"]).split():
            name = slot.partition("}")[0].removeprefix("{")
            parts = slot.format(**chosen).split()
            kind = name if name in ("person", "place") else None
            sentence += [(part, f"{'I' if number else 'B'}-{kind}" if kind else "O")
                         for number, part in enumerate(parts)]
        yield sentence


def paragraphs(draw, words):
    """SQuAD's paragraphs with a question each."""
    for number in range(ROWS):
        chosen = names(draw, words)
        context = words["context"].format(**chosen)
        question, answer = words["questions"][number % len(words["questions"])]
        text = answer and answer.format(**chosen)
        answers = [{"text": text, "answer_start": context.index(text)}] if text else []
        yield {"context": context, "qas": [{
            "id": f"q{number}", "question": question.format(**chosen), "answers": answers,
            "is_impossible": not answers}]}


def main(folder="."):
    """Write all files into `folder`."""
    for ending, words in LANGUAGES.items():
        draw = random.Random(SEED)
        rows = []
        for name in ("reviews", "new_reviews"):
            rows = reviews(draw, words, rows)
            path = os.path.join(folder, f"{name}{ending}.csv")
            with open(path, "w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows([("review", "stars"), *rows])
        path = os.path.join(folder, f"entities{ending}.conll")
        with open(path, "w", encoding="utf-8") as stream:
            for sentence in entities(draw, words):
                stream.write("".join(f"{word}\t{tag}\n" for word, tag in sentence) + "\n")
        data = [{"title": str(number), "paragraphs": [paragraph]}
                for number, paragraph in enumerate(paragraphs(draw, words))]
        with open(os.path.join(folder, f"questions{ending}.json"), "w",
                  encoding="utf-8") as stream:
            json.dump({"version": "v2.0", "data": data}, stream, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
