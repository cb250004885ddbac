"""sentence-transformers behind a FastAPI endpoint, as people put it there.

    python benchmarks/peers/sentence_server.py --model MODEL --port 8000

Needs sentence-transformers, fastapi and uvicorn. `POST /embed` takes {"texts": […]} and answers
{"embeddings": [[…], …]}.
"""

import argparse

import fastapi
import pydantic
import sentence_transformers
import uvicorn


class Texts(pydantic.BaseModel):
    texts: list[str]


def make_app(model):
    app = fastapi.FastAPI()

    @app.post("/embed")
    def embed(body: Texts):
        return {"embeddings": model.encode(body.texts, show_progress_bar=False).tolist()}

    return app


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    model = sentence_transformers.SentenceTransformer(arguments.model, device="cpu")
    uvicorn.run(make_app(model), host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
