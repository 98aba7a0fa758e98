"""Questions that come while another is answered wait, and are answered together: in one pass, for little more."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from ulmus.serving.answers import Answer, Predictor, Question
from ulmus.tables import TableError

#: Rows that are answered in one pass.
TOGETHER = 2_000


class Waiting:
    """A queue in front of a predictor, which works in a thread of its own."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._queue: list[tuple[Question, asyncio.Future[Answer | TableError]]] = []
        self._thread = ThreadPoolExecutor(1)
        self._working = False

    async def ask(self, question: Question) -> Answer:
        """The answer; what is wrong with the rows is raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer | TableError] = loop.create_future()
        self._queue.append((question, future))
        if not self._working:
            self._working = True
            self._task = loop.create_task(self._work())
        found = await future
        if isinstance(found, TableError):
            raise found
        return found

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                some: list[tuple[Question, asyncio.Future[Answer | TableError]]] = []
                rows = 0
                while self._queue and (not some or rows + len(self._queue[0][0].rows) <= TOGETHER):
                    some.append(self._queue.pop(0))
                    rows += len(some[-1][0].rows)
                try:
                    questions = [question for question, _ in some]
                    answers = await loop.run_in_executor(self._thread, self._predictor.answer_together, questions)
                    for (_, future), answer in zip(some, answers, strict=True):
                        if not future.cancelled():
                            future.set_result(answer)
                except Exception as error:
                    for _, future in some:
                        if not future.done():
                            future.set_exception(error)
        finally:
            self._working = False
