import { limit } from 'sluice/fetch'
import { answerSlowly } from '../../../answer.js'
import { options } from '../../../options.js'

export const GET = limit(answerSlowly, options)
