import { limit } from 'sluice/fetch'
import { options } from '../../options.js'

const limited = limit((_request, { event, resolve }) => resolve(event), {
  ...options,
  trustProxy: (_request, { event }) => event.getClientAddress(),
})
export const handle = (input) => limited(input.event.request, input)
