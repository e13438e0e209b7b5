/** Values that are named by numbers, so that what is made of them stays small. */
export class Numbered<Value> {
  readonly #values: Value[] = []
  readonly #numbers = new Map<string, number>()

  get size(): number {
    return this.#values.length
  }

  findNumber(value: Value): number {
    const text = JSON.stringify(value)
    let number = this.#numbers.get(text)
    if (number === undefined) {
      number = this.#values.push(value) - 1
      this.#numbers.set(text, number)
    }
    return number
  }

  get(number: number): Value {
    return this.#values[number] as Value
  }
}
