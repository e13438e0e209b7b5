/**
 * A language model's API that records what it has used. Its bodies have the form of the APIs that it stands for. OpenAI: the
 * schema of `ChatCompletionStreamOptions` says that `usage` is null until a last chunk without choices, if `include_usage`
 * asks for it, and that a stream that is cut off may not have it. Anthropic: its SDK's `RawMessageStreamEvent` has the
 * tokens that went in within `message_start`, and all that came out until then in each `message_delta`. Compatible servers:
 * OpenRouter was seen to send zero in `message_start`, and the tokens that went in with `message_delta` (0xPlaygrounds/rig,
 * pull request 2236).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Answered {
  readonly caller: string
  /** When all of it was used, or it broke off. */
  readonly ms: number
  readonly input: number
  readonly output: number
  /** The body was sent to its end. */
  readonly isWhole: boolean
}

export interface Completion {
  readonly input: number
  readonly output: number
  readonly isStream: boolean
  readonly pauseMs: number
  /** It breaks off in the middle of its answer. */
  readonly breaks: boolean
}

export type Form = 'openai' | 'anthropic' | 'compatible'

/** What a request asks for, in its query: a test says what a model would find out. */
export function formatQuestion(form: Form, completion: Completion): string {
  const query = new URLSearchParams(Object.entries(completion).map(([name, value]) => [name, String(value)]))
  return `/v1/${form === 'openai' ? 'chat/completions' : 'messages'}?${query}&form=${form}`
}

const WORDS = ['the', ' usage', ' of', ' "usage"', ' tokens']

/** @param record gets what was answered, before its last byte is sent */
export function createLanguageModel(record: (answered: Answered) => void) {
  return async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { searchParams: query } = new URL(request.url ?? '', 'http://model.invalid')
    const [input, output] = [Number(query.get('input')), Number(query.get('output'))]
    const [form, breaks] = [query.get('form') as Form, query.get('breaks') === 'true']
    const caller = `${request.headers.authorization}`
    const pause = () => sleep(Number(query.get('pauseMs')))
    const note = (isWhole: boolean) => record({ caller, ms: Date.now(), input, output, isWhole })
    // Clients that have gone are noticed when it writes, and it goes on.
    response.on('error', () => {})
    if (query.get('isStream') !== 'true') {
      const text = JSON.stringify(form === 'openai' ? completeOpenai(input, output) : completeAnthropic(input, output))
      response.setHeader('Content-Type', 'application/json').write(text.slice(0, 40))
      await pause()
      note(!breaks)
      if (breaks) response.destroy()
      else response.end(text.slice(40))
      return
    }
    response.setHeader('Content-Type', 'text/event-stream; charset=utf-8')
    const events = form === 'openai' ? streamOpenai(input, output) : streamAnthropic(form, input, output)
    const half = Math.floor(events.length / 2)
    for (const [at, event] of events.entries()) {
      // What it has said until then arrives, and is not lost with its connection.
      if (at === half) await pause()
      if (breaks && at === half) {
        note(false)
        response.destroy()
        return
      }
      if (at === events.length - 1) note(true)
      response.write(event)
    }
    response.end()
  }
}

const formatEvent = (name: string, data: object) =>
  `event: ${name}\ndata: ${JSON.stringify({ type: name, ...data })}\n\n`

function completeOpenai(input: number, output: number) {
  const message = { role: 'assistant', content: WORDS.join('') }
  return {
    ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1_700_000_000, model: 'small' },
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
  }
}

function streamOpenai(input: number, output: number): readonly string[] {
  const chunk = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_700_000_000, model: 'small' }
  const words = WORDS.map((content) => ({ ...chunk, choices: [{ index: 0, delta: { content } }], usage: null }))
  const { usage } = completeOpenai(input, output)
  const events = [...words, { ...chunk, choices: [], usage }].map((data) => `data: ${JSON.stringify(data)}\n\n`)
  return [...events, 'data: [DONE]\n\n']
}

function completeAnthropic(input: number, output: number) {
  const content = [{ type: 'text', text: WORDS.join('') }]
  const usage = { input_tokens: input, cache_read_input_tokens: 0, output_tokens: output }
  return { id: 'msg_1', type: 'message', role: 'assistant', model: 'small', content, stop_reason: 'end_turn', usage }
}

function streamAnthropic(form: Form, input: number, output: number): readonly string[] {
  const isOwn = form === 'anthropic'
  const usage = { input_tokens: isOwn ? input : 0, output_tokens: 1 }
  return [
    formatEvent('message_start', { message: { id: 'msg_1', role: 'assistant', content: [], usage } }),
    formatEvent('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    formatEvent('ping', {}),
    ...WORDS.map((text) => formatEvent('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })),
    formatEvent('content_block_stop', { index: 0 }),
    formatEvent('message_delta', {
      delta: { stop_reason: 'end_turn' },
      usage: { ...(!isOwn && { input_tokens: input }), output_tokens: output },
    }),
    formatEvent('message_stop', {}),
  ]
}
