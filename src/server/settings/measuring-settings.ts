// Settings of what is measured, and of whom it is told: metrics, samples, the probe and the log.
import { parseDuration, parseSwitch, parseWord } from './quantities.ts';
import { optional, setting } from './setting.ts';
import { parseMetricsToken, parseProbeInterval, parseSpendMax } from './setting-values.ts';

export const logLevels = ['silent', 'error', 'warn', 'info'] as const;
export type LogLevel = (typeof logLevels)[number];

const timingAudiences = ['admins', 'everyone', 'nobody'] as const;

export const measuringSettings = {
  metricsToken: optional({
    key: 'metricsToken',
    placeholder: 'SECRET',
    description: 'bearer token with which /_/metrics names tenants and accounts',
    secret: true,
    parse: parseMetricsToken,
  }),
  serverTiming: setting({
    key: 'serverTiming',
    placeholder: 'WHO',
    description: `whom answers tell how long each stage took: ${timingAudiences.join(', ')}`,
    default: 'admins',
    parse: (value) => parseWord(value, timingAudiences),
  }),
  trafficSamples: setting({
    key: 'trafficSamples',
    placeholder: 'yes|no',
    description: 'keep samples of how long transfers take, for bursar report',
    default: 'yes',
    isSwitch: true,
    parse: parseSwitch,
  }),
  probe: setting({
    key: 'probe',
    placeholder: 'yes|no',
    description: 'measure this gateway in the background, in each of its stores',
    default: 'no',
    isSwitch: true,
    parse: parseSwitch,
  }),
  probeIntervalMs: setting({
    key: 'probeInterval',
    placeholder: 'DURATION',
    description: 'mean of the pauses of --probe, 1s to 24d',
    default: '1h',
    parse: parseProbeInterval,
  }),
  probeSpendMax: setting({
    key: 'probeSpendMax',
    placeholder: 'USD',
    description: 'what --probe may spend in a calendar month',
    default: '5.00',
    parse: parseSpendMax,
  }),
  requestLog: setting({
    key: 'requestLog',
    placeholder: 'yes|no',
    description: 'log a line for each request; slow ones are logged in any case',
    default: 'yes',
    isSwitch: true,
    parse: parseSwitch,
  }),
  slowRequestMs: setting({
    key: 'slowRequest',
    placeholder: 'DURATION',
    description: 'a request is slow from here on, without the time that its client took',
    default: '1s',
    parse: parseDuration,
  }),
  logLevel: setting({
    key: 'logLevel',
    placeholder: 'LEVEL',
    description: `how much to log: ${logLevels.join(', ')}`,
    default: 'info',
    parse: (value) => parseWord(value, logLevels),
  }),
};
