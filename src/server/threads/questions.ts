// Questions from one thread to another that wait for their answers, by number.
export class Questions<Answer> {
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #asked = 0;

  /** Resolves with what `answer` is told of the number that is sent. */
  ask(send: (question: number) => void): Promise<Answer> {
    this.#asked += 1;
    const question = this.#asked;
    return new Promise((resolve) => {
      this.#waiting.set(question, resolve);
      send(question);
    });
  }

  answer(question: number, answer: Answer): void {
    this.#waiting.get(question)?.(answer);
    this.#waiting.delete(question);
  }

  /** Of those who are to answer one has ended: all get this. */
  answerAll(answer: Answer): void {
    for (const question of [...this.#waiting.keys()]) this.answer(question, answer);
  }
}
