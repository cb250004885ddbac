"""sentence-transformers behind a FastAPI endpoint, as people put it there.

    python benchmarks/peers/sentence_server.py --model MODEL --port 8000

Needs sentence-transformers, fastapi and uvicorn. `POST /embed` takes {"texts": […]} and answers
{"embeddings": [[…], …]}.
"""

import argparse

import fastapi
import pydantic
import sentence_transformers
import torch
import uvicorn


class Texts(pydantic.BaseModel):
    texts: list[str]


def make_app(model):
    app = fastapi.FastAPI()

    @app.post("/embed")
    def embed(body: Texts):
        vectors = model.encode(body.texts, show_progress_bar=False, convert_to_tensor=True)
        return {"embeddings": vectors.float().tolist()}

    return app


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    model = sentence_transformers.SentenceTransformer(
        arguments.model, device="cpu", model_kwargs={"dtype": getattr(torch, arguments.dtype)})
    uvicorn.run(make_app(model), host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
